/*
 * list.h - intrusive doubly linked list; an element knows its neighbours, a head is an element.
 */
#ifndef SXT_CORE_LIST_H
#define SXT_CORE_LIST_H

#include "core/compiler.h"

#include <stdbool.h>

struct sxt_list {
	struct sxt_list *prev;
	struct sxt_list *next;
};

#define SXT_LIST_ENTRY(node, type, member) SXT_CONTAINER_OF(node, type, member)

/* The body may remove @node itself; @after is where the walk goes on. */
#define sxt_list_for_each(node, after, head)                                  \
	for ((node) = (head)->next, (after) = (node)->next; (node) != (head); \
	     (node) = (after), (after) = (node)->next)

static inline void sxt_list_init(struct sxt_list *head)
{
	head->prev = head;
	head->next = head;
}

static inline bool sxt_list_empty(const struct sxt_list *head)
{
	return head->next == head;
}

static inline void sxt_list_append(struct sxt_list *head, struct sxt_list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Removing twice, or a node that was initialised and never added, does nothing. */
static inline void sxt_list_remove(struct sxt_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	sxt_list_init(node);
}

#endif
