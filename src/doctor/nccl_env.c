/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables and lists of names. */
#include <stdlib.h>
#include <string.h>

#include "nccl.h"
#include "parse.h"

static void add(struct nccl *nccl, const char *line, size_t length, const char *where)
{
	struct scratch *scratch = nccl->model->scratch;
	const char *equals = memchr(line, '=', length);
	size_t name = equals ? (size_t)(equals - line) : 0;
	struct variable *more;

	if (!equals || line[0] == '#')
		return;
	if ((nccl->count & (nccl->count - 1)) == 0) {
		more = scratch_alloc(scratch, (nccl->count ? nccl->count * 2 : 1) * sizeof(*more));
		if (nccl->count)
			memcpy(more, nccl->variables, nccl->count * sizeof(*more));
		nccl->variables = more;
	}
	if (length && line[length - 1] == '\r')
		length--;
	nccl->variables[nccl->count++] = (struct variable){
		.name = scratch_copy(scratch, line, name),
		.value = scratch_copy(scratch, equals + 1, length > name ? length - name - 1 : 0),
		.where = where,
	};
}

static void add_all(struct nccl *nccl, const struct fact *fact, const char *where)
{
	const char *at = fact->text, *line;
	size_t length;

	while (parse_line(&at, &line, &length))
		add(nccl, line, length, where);
}

void nccl_load(const struct model *model, struct nccl *out)
{
	const char *file;
	const struct fact *fact;

	*out = (struct nccl){ .model = model };
	out->environ = reader_read(model->reader, "/.godwit/environ");
	add_all(out, out->environ,
		reader_pid(model->reader) ? "environment of the job" : "environment of this shell");
	file = nccl_text(out, "NCCL_CONF_FILE");
	if (!file && nccl_text(out, "HOME"))
		file = scratch_print(model->scratch, "%s/.nccl.conf", nccl_text(out, "HOME"));
	if (file && file[0] == '/') {
		fact = reader_read(model->reader, "%s", file);
		add_all(out, fact, fact->path);
	}
	fact = reader_read(model->reader, "/etc/nccl.conf");
	add_all(out, fact, fact->path);
}

const struct variable *nccl_variable(const struct nccl *nccl, const char *name)
{
	for (size_t i = 0; i < nccl->count; i++) {
		if (strcmp(nccl->variables[i].name, name) == 0)
			return &nccl->variables[i];
	}
	return NULL;
}

const char *nccl_text(const struct nccl *nccl, const char *name)
{
	const struct variable *variable = nccl_variable(nccl, name);

	return variable && variable->value[0] ? variable->value : NULL;
}

int64_t nccl_number(const struct nccl *nccl, const char *name, int64_t otherwise)
{
	const char *text = nccl_text(nccl, name);
	int64_t value;

	if (!text)
		return otherwise;
	/* strtoll() returns 0 for a text that is no number, and NCCL takes that. */
	return parse_signed(text, &value) ? value : 0;
}

void nccl_list_read(const char *text, struct nccl_list *out)
{
	*out = (struct nccl_list){ 0 };
	if (!text)
		return;
	if (*text == '^') {
		out->inverted = true;
		text++;
	}
	if (*text == '=') {
		out->exact = true;
		text++;
	}
	while (*text && out->count < NCCL_NAMES_MAX) {
		size_t length = strcspn(text, ","), name = strcspn(text, ":,");
		struct nccl_name *entry = &out->names[out->count];

		if (name > 0 && name < sizeof(entry->prefix)) {
			memcpy(entry->prefix, text, name);
			entry->prefix[name] = '\0';
			entry->port = name + 1 < length && text[name + 1] != ':'
					      ? atoi(text + name + 1)
					      : -1;
			out->count++;
		}
		text += length + (text[length] == ',');
	}
}

bool nccl_list_takes(const struct nccl_list *list, const char *name, int port)
{
	bool found = list->count == 0;

	for (unsigned i = 0; i < list->count && !found; i++) {
		const struct nccl_name *entry = &list->names[i];

		found = (list->exact ? strcmp(name, entry->prefix) == 0
				     : strncmp(name, entry->prefix, strlen(entry->prefix)) == 0) &&
			(port == -1 || entry->port == -1 || port == entry->port);
	}
	return found != list->inverted;
}

bool nccl_takes_port(const struct nccl *nccl, const struct port *port)
{
	struct nccl_list list;

	nccl_list_read(nccl_text(nccl, "NCCL_IB_HCA"), &list);
	return port->active && port->link_layer != LINK_UNKNOWN &&
	       nccl_list_takes(&list, port->device->name, (int)port->number);
}
