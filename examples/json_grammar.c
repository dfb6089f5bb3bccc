/* SPDX-License-Identifier: MIT */
/* A pushdown automaton that reads bytes. A token may follow if all of its bytes may follow, and if
 * the text can still end within the tokens that are left. */
#include "json_grammar.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The first token ends a text. Each byte of the shortest possible end of a text is also a token:
 * quote, colon, zero, brackets and letters. */
const char *const json_tokens[JSON_VOCAB] = {
    "",        "a",        "b",     "c",   "d",      "e",     "f",     "g",      "h",     "i",
    "j",       "k",        "l",     "m",   "n",      "o",     "p",     "q",      "r",     "s",
    "t",       "u",        "v",     "w",   "x",      "y",     "z",     "0",      "1",     "2",
    "3",       "4",        "5",     "6",   "7",      "8",     "9",     "E",      " ",     "\"",
    "\\",      "/",        "+",     "-",   ".",      ",",     ":",     "[",      "]",     "{",
    "}",       "th",       "er",    "on",  "an",     "in",    "the",   "name",   "id",    "list",
    "size",    "tr",       "ue",    "fal", "nul",    "true",  "null",  "10",     "42",    "365",
    "0.",      "1.5",      "-1",    "e+",  "e-",     "12e",   "\\n",   "\\\"",   "\\\\",  "\\u",
    "00",      "00e9",     "\\u20", "{\"", "{}",     "[]",    "\"\"",  "\",",    "\",\"", "\"]",
    "\"}",     "[[",       "[{",    "[\"", "[0",     "[true", "[null", "[-",     "[{\"",  "]]",
    "]}",      "}}",       "}]",    "},",  "],",     "],[",   "],\"",  "},{",    ",\"",   ",[",
    ",{\"",    ",-",       ",true", ",0",  "\":",    "\":\"", "\":[",  "\":{\"", "\":-",  "\":true",
    "\":null", "\":false", ":\"",   ":[",  ":{\"",   ":{}",   "false", "0,",     "1]",    ", ",
    ": ",      "\": ",     "e5",    "-0",  "\"},{\""};

/* The states: between values, within a string or a word, within a number. */
enum { START, VALUE, ITEM, NAME, FIRST_NAME, COLON, AFTER };
enum { STRING = 10, ESCAPE, HEX, WORD };
enum { MINUS = 20, ZERO, WHOLE, POINT, FRACTION, EXPONENT, SIGN, POWER };

/* The least number of bytes to the end of the text. */
static int fewest(const grammar *g)
{
    const int rest = g->at == HEX || g->at == WORD ? (int)strlen(g->rest) : 0;
    switch (g->at) {
    case START:
        return 2; /* [] */
    case NAME:
        return g->depth + 4; /* "":0 */
    case COLON:
        return g->depth + 2;
    case STRING:
    case ESCAPE:
    case HEX:
        return g->depth + (g->at == ESCAPE) + rest + (g->name ? 3 : 1);
    case VALUE:
    case MINUS:
    case POINT:
    case EXPONENT:
    case SIGN:
        return g->depth + 1;
    default:
        return g->depth + rest;
    }
}

static bool opens(grammar *g, char c)
{
    if (g->depth == JSON_DEPTH)
        return false;
    g->open[g->depth++] = c;
    g->at = c == '{' ? FIRST_NAME : ITEM;
    return true;
}

static bool begins_value(grammar *g, char c)
{
    static const char *const words[] = {"true", "false", "null"};
    if (c == '{' || c == '[')
        return opens(g, c);
    for (int i = 0; i < 3; i++)
        if (c == words[i][0]) {
            g->at = WORD;
            g->rest = words[i] + 1;
            return true;
        }
    g->name = false;
    g->at = c == '"' ? STRING : c == '-' ? MINUS : c == '0' ? ZERO : WHOLE;
    return c == '"' || c == '-' || isdigit((unsigned char)c);
}

static bool follows_value(grammar *g, char c)
{
    if (g->depth == 0)
        return false;
    const char open = g->open[g->depth - 1];
    g->at = c == ',' ? open == '{' ? NAME : VALUE : AFTER;
    if (c == (open == '{' ? '}' : ']'))
        g->depth--;
    else
        return c == ',' || c == ' ';
    return true;
}

static bool in_number(grammar *g, char c)
{
    /* The next state after a zero, another digit, a point, an e and a sign. */
    static const int next[][5] = {[MINUS - MINUS] = {ZERO, WHOLE},
                                  [ZERO - MINUS] = {0, 0, POINT, EXPONENT},
                                  [WHOLE - MINUS] = {WHOLE, WHOLE, POINT, EXPONENT},
                                  [POINT - MINUS] = {FRACTION, FRACTION},
                                  [FRACTION - MINUS] = {FRACTION, FRACTION, 0, EXPONENT},
                                  [EXPONENT - MINUS] = {POWER, POWER, 0, 0, SIGN},
                                  [SIGN - MINUS] = {POWER, POWER},
                                  [POWER - MINUS] = {POWER, POWER}};
    const bool may_end = g->at == ZERO || g->at == WHOLE || g->at == FRACTION || g->at == POWER;
    const int column = isdigit((unsigned char)c) ? c != '0'
                       : c == '.'                ? 2
                       : strchr("eE", c)         ? 3
                       : strchr("+-", c)         ? 4
                                                 : -1;
    if (column < 0 || next[g->at - MINUS][column] == 0)
        return may_end && follows_value(g, c);
    g->at = next[g->at - MINUS][column];
    return true;
}

/* Reads a byte. False: the byte may not follow, and *g is undefined. */
static bool reads(grammar *g, char c)
{
    switch (g->at) {
    case START:
        return (c == '{' || c == '[') && opens(g, c);
    case VALUE:
        return c == ' ' || begins_value(g, c);
    case ITEM:
        return c == ' ' || (c == ']' ? follows_value(g, c) : begins_value(g, c));
    case NAME:
    case FIRST_NAME:
        if (c == '"') {
            g->name = true;
            g->at = STRING;
        } else if (c == '}' && g->at == FIRST_NAME) {
            return follows_value(g, c);
        }
        return c == '"' || c == ' ';
    case COLON:
        if (c == ':')
            g->at = VALUE;
        return c == ':' || c == ' ';
    case AFTER:
        return follows_value(g, c);
    case STRING:
        if (c == '"' || c == '\\')
            g->at = c == '\\' ? ESCAPE : g->name ? COLON : AFTER;
        return true;
    case ESCAPE:
        g->at = c == 'u' ? HEX : STRING;
        g->rest = "0000";
        return strchr("\"\\/bfnrtu", c) != NULL;
    case HEX:
        if (*++g->rest == '\0')
            g->at = STRING;
        return isxdigit((unsigned char)c);
    case WORD:
        if (c != *g->rest++)
            return false;
        if (*g->rest == '\0')
            g->at = AFTER;
        return true;
    default:
        return in_number(g, c);
    }
}

bool grammar_follows(grammar *g, int token, int left)
{
    grammar next = *g;
    if (token == JSON_END)
        return g->at == AFTER && g->depth == 0;
    for (const char *c = json_tokens[token]; *c != '\0'; c++)
        if (!reads(&next, *c))
            return false;
    if (1 + fewest(&next) + 1 > left)
        return false;
    /* What no longer matters is cleared, so that texts with the same continuations have equal
     * states. */
    memset(&next.open[next.depth], 0, sizeof next.open - (size_t)next.depth);
    next.rest = next.at == HEX || next.at == WORD ? next.rest : NULL;
    next.name = next.name && next.at >= STRING && next.at <= HEX;
    *g = next;
    return true;
}

int grammar_mask(const grammar *g, int left, int32_t mask[JSON_WORDS])
{
    int n = 0, last = -1;
    memset(mask, 0, JSON_WORDS * sizeof *mask);
    for (int t = 0; t < JSON_VOCAB; t++) {
        grammar next = *g;
        if (grammar_follows(&next, t, left)) {
            mask[t / 32] |= (int32_t)(UINT32_C(1) << t % 32);
            last = t;
            n++;
        }
    }
    return n == 1 ? last : -1;
}

/* ------------------------------------------------------------- the automaton */

/* A state of the automaton, and how many tokens its text may still have. */
typedef struct node {
    grammar g;
    int left;
} node;

/* The nodes found so far, and where they are: a hash table of their numbers plus 1. */
typedef struct nodes {
    node *node;
    uint32_t count, *table;
} nodes;
#define MOST_NODES (1u << 18)
#define TABLE (4 * MOST_NODES)

static uint32_t hash(const node *x)
{
    uint32_t h = (uint32_t)(x->g.at * 64 + x->left * 2 + x->g.name);
    for (int i = 0; i < x->g.depth; i++)
        h = h * 31u + (unsigned char)x->g.open[i];
    for (const char *c = x->g.rest; c != NULL && *c != '\0'; c++)
        h = h * 31u + (unsigned char)*c;
    return h * 0x9e3779b1u;
}

static bool same(const node *a, const node *b)
{
    return a->left == b->left && a->g.at == b->g.at && a->g.depth == b->g.depth &&
           a->g.name == b->g.name && memcmp(a->g.open, b->g.open, sizeof a->g.open) == 0 &&
           strcmp(a->g.rest != NULL ? a->g.rest : "", b->g.rest != NULL ? b->g.rest : "") == 0;
}

/* The number of a node, which is added if it is new. */
static uint32_t number_of(nodes *all, const node *x)
{
    uint32_t at = hash(x) % TABLE;
    while (all->table[at] != 0 && !same(&all->node[all->table[at] - 1], x))
        at = (at + 1) % TABLE;
    if (all->table[at] == 0) {
        if (all->count == MOST_NODES)
            abort(); /* with JSON_DEPTH and the tokens of json.c there are 55,388 */
        all->node[all->count++] = *x;
        all->table[at] = all->count;
    }
    return all->table[at] - 1;
}

bool json_automaton_make(int most, json_automaton *a)
{
    const size_t transitions = (size_t)MOST_NODES * 32; /* a node has 23 on average */
    nodes all = {calloc(MOST_NODES, sizeof *all.node), 0, calloc(TABLE, sizeof *all.table)};
    node first = {.left = most};
    *a = (json_automaton){0, calloc(MOST_NODES + 1, sizeof *a->offsets),
                          malloc(transitions * sizeof *a->ids),
                          malloc(transitions * sizeof *a->next), calloc(MOST_NODES, 1)};
    const bool allocated = all.node != NULL && all.table != NULL && a->offsets != NULL &&
                           a->ids != NULL && a->next != NULL && a->final_states != NULL;
    uint64_t n = 0;
    if (allocated)
        number_of(&all, &first);
    for (uint32_t s = 0; s < all.count; s++) {
        for (int32_t id = 0; id < JSON_VOCAB; id++) {
            node next = all.node[s];
            if (!grammar_follows(&next.g, id, next.left--))
                continue;
            if (id == JSON_END) {
                a->final_states[s] = 1;
                continue;
            }
            if (n == transitions)
                abort();
            a->ids[n] = id;
            a->next[n++] = number_of(&all, &next);
        }
        a->offsets[s + 1] = n;
    }
    a->states = all.count;
    free(all.table);
    free(all.node);
    return allocated;
}

void json_automaton_free(json_automaton *a)
{
    free(a->offsets);
    free(a->ids);
    free(a->next);
    free(a->final_states);
}
