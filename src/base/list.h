/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A doubly linked list whose links lie inside the objects: linking allocates nothing, and an object
 * leaves its list in constant time without knowing which list that is.
 *
 * The list is a ring closed by its head, of the same type as the links. A link that is in no list
 * is a ring of its own, so list_empty(link) tells whether it is linked, and unlinking it again is
 * harmless.
 */
#ifndef GODWIT_BASE_LIST_H
#define GODWIT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

/* The object of this type whose `member` is at `pointer`. */
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Needed for heads and for links alike. */
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

/* The item must be in no list. */
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

/* The same, and the body may unlink or free the item, but not the one after it. */
#define list_for_each_safe(item, after, list)                                                      \
	for ((item) = (list)->next, (after) = (item)->next; (item) != (list);                      \
	     (item) = (after), (after) = (item)->next)

#endif
