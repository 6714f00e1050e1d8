/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.h: a doubly linked list whose links are members of the objects: linking allocates nothing, and
 * an object leaves its list in constant time without knowing which list that is.
 *
 * The list is a ring of links and one head, which has the same type. A link that is in no list points
 * to itself, so !list_empty(link) means that it is linked, and unlinking it again does nothing.
 */
#ifndef GODWIT_BASE_LIST_H
#define GODWIT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A link, or the head of a list. */
struct list {
	/* of a head: the first link, or the head itself if the list is empty */
	struct list *next;
	/* of a head: the last link, or the head itself if the list is empty */
	struct list *prev;
};

/* Pointer to the object of this type whose `member` is at `pointer`. */
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Initializes a head or a link. */
static inline void list_init(struct list *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

static inline void list_insert_between(struct list *prev, struct list *next, struct list *item)
{
	item->prev = prev;
	item->next = next;
	prev->next = item;
	next->prev = item;
}

/* Add an item that is in no list at the front, or at the end. */
static inline void list_add_head(struct list *list, struct list *item)
{
	list_insert_between(list, list->next, item);
}

static inline void list_add_tail(struct list *list, struct list *item)
{
	list_insert_between(list->prev, list, item);
}

static inline void list_del(struct list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	list_init(item);
}

/* The first link, or NULL if the list is empty. */
static inline struct list *list_first(const struct list *list)
{
	return list_empty(list) ? NULL : list->next;
}

/* Visits the links in order; `item` is a struct list *. The body must not unlink it. */
#define list_for_each(item, list)                                                                  \
	for ((item) = (list)->next; (item) != (list); (item) = (item)->next)

/* The same, but the body may unlink or free the item (not the one after it). */
#define list_for_each_safe(item, after, list)                                                      \
	for ((item) = (list)->next, (after) = (item)->next; (item) != (list);                      \
	     (item) = (after), (after) = (item)->next)

#endif
