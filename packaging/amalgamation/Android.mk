# SPDX-License-Identifier: MIT
# The module clsample for ndk-build. Set before: CLSAMPLE_OPENCL_HEADERS, a folder that has CL/cl.h,
# and CLSAMPLE_WITHOUT, the parts to leave out, such as SHARDS VERIFY (README.md says what they are).
LOCAL_PATH := $(call my-dir)
include $(CLEAR_VARS)
LOCAL_MODULE := clsample
LOCAL_SRC_FILES := clsample.c
LOCAL_CFLAGS := -std=c11 -Os -fvisibility=hidden $(CLSAMPLE_WITHOUT:%=-DCLS_WITHOUT_%)
LOCAL_C_INCLUDES := $(CLSAMPLE_OPENCL_HEADERS)
LOCAL_EXPORT_C_INCLUDES := $(LOCAL_PATH) $(CLSAMPLE_OPENCL_HEADERS)
LOCAL_EXPORT_LDLIBS := -ldl -lm
include $(BUILD_STATIC_LIBRARY)
