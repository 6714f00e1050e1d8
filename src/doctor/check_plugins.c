/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's network plugins: loaded here as NCCL loads them, with the loader's own words. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "exam.h"
#include "parse.h"

#define DEFAULT_PLUGIN "libnccl-net.so"

static const struct fact *load(const struct exam *exam, const char *name)
{
	return reader_read(exam->model->reader, "/.godwit/library/%s", name);
}

static bool loaded(const struct fact *fact)
{
	return strncmp(fact->text, "loaded", 6) == 0;
}

/* The loader found no file of that name: for the default plugin that is no fault. */
static bool no_such_file(const struct fact *fact)
{
	return strstr(fact->text, "cannot open shared object file: No such file") != NULL;
}

static void judge_loaded(struct exam *exam, const struct subject *subject, const struct fact *fact,
			 const char *name)
{
	char path[256] = "", symbol[64] = "";

	parse_value(fact->text, "loaded", path, sizeof(path));
	if (!parse_value(fact->text, "symbol ncclNetPlugin_v12", symbol, sizeof(symbol)) &&
	    !strstr(fact->text, "symbol ncclNetPlugin_v")) {
		found(exam, subject, path, "%s exports no ncclNetPlugin_v4 to _v12", name);
		return;
	}
	snprintf(symbol, sizeof(symbol), "%.40s", strstr(fact->text, "ncclNetPlugin_v"));
	symbol[strcspn(symbol, "\n")] = '\0';
	diagnosis_note(exam->diagnosis, "plugin", say(exam, "%s", name),
		       say(exam, "%s, newest interface %s", path, symbol));
}

/* A job's search path comes first; the loader of this process does not know it. Returns the name to load. */
static const char *in_search_path(const struct exam *exam, const char *name)
{
	const char *at = nccl_text(&exam->nccl, "LD_LIBRARY_PATH");

	if (!reader_pid(exam->model->reader) || strchr(name, '/'))
		return name;
	while (at && *at) {
		size_t length = strcspn(at, ":");
		char *path =
			scratch_print(&exam->diagnosis->scratch, "%.*s/%s", (int)length, at, name);

		if (path[0] == '/' &&
		    reader_read(exam->model->reader, "/.godwit/access%s", path)->state ==
			    FACT_KNOWN)
			return path;
		at += length + (at[length] == ':');
	}
	return name;
}

static const struct fact *try_names(const struct exam *exam, const char *name, const char **tried)
{
	const struct fact *fact = load(exam, in_search_path(exam, name));

	*tried = name;
	if (loaded(fact) || strchr(name, '/') || !no_such_file(fact))
		return fact;
	*tried = scratch_print(&exam->diagnosis->scratch, "libnccl-net-%s.so", name);
	return load(exam, in_search_path(exam, *tried));
}

static void plugin_load(struct exam *exam, const struct subject *subject)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_NET_PLUGIN");
	const char *name = variable && variable->value[0] ? variable->value : DEFAULT_PLUGIN;
	const struct fact *fact;
	const char *tried;
	char one[256];

	if (strcmp(name, "none") == 0 || strcmp(name, "STATIC_PLUGIN") == 0)
		return;
	/* Of a list the first that loads counts. */
	snprintf(one, sizeof(one), "%.*s", (int)strcspn(name, ","), name);
	fact = try_names(exam, one, &tried);
	if (fact->state != FACT_KNOWN) {
		if (variable || reader_live(exam->model->reader))
			unseen(exam, subject, fact);
	} else if (loaded(fact)) {
		judge_loaded(exam, subject, fact, tried);
	} else if (variable || !no_such_file(fact)) {
		found(exam, subject, variable ? variable->where : DEFAULT_PLUGIN, "%s",
		      fact->text + (strncmp(fact->text, "error ", 6) == 0 ? 6 : 0));
	}
}

static void plugin_none(struct exam *exam, const struct subject *subject)
{
	const struct variable *plugin = nccl_variable(&exam->nccl, "NCCL_NET_PLUGIN");
	const struct variable *net = nccl_variable(&exam->nccl, "NCCL_NET");

	if (plugin && net && strcmp(plugin->value, "none") == 0 && net->value[0] &&
	    strcasecmp(net->value, "IB") != 0 && strcasecmp(net->value, "Socket") != 0)
		found(exam, subject, plugin->where, "NCCL_NET_PLUGIN=none and NCCL_NET=%s",
		      net->value);
}

static const struct check checks[] = {
	{
		.id = "plugin-load",
		.severity = SEVERITY_ERROR,
		.impact = 99,
		.gates = GATE_NCCL,
		.title = "NCCL's network plugin does not load",
		.healthy = "it loads, and exports ncclNetPlugin_v6 or newer",
		.why = "NCCL logs this at INFO only and falls back to its own InfiniBand code or to sockets: slow, or a hang if other hosts did load it.",
		.fix = "LD_LIBRARY_PATH=DIRECTORY of the plugin and of what it misses (ldd PLUGIN shows which)",
		.explain =
			"NCCL_NET_PLUGIN names a file, a path, or the X of libnccl-net-X.so; unset means libnccl-net.so, and none means no plugin. This check loads it the same way in a process of its own and prints what the loader says. The newest interface that NCCL and the plugin share is used.",
		.run = plugin_load,
	},
	{
		.id = "plugin-none",
		.severity = SEVERITY_ERROR,
		.impact = 83,
		.gates = GATE_NCCL,
		.title = "a plugin's network is asked for and plugins are off",
		.healthy = "one or the other",
		.why = "NCCL ends with \"Failed to initialize any NET plugin\".",
		.fix = "unset NCCL_NET_PLUGIN, or NCCL_NET",
		.explain =
			"NCCL_NET chooses a network by its name; without plugins there are IB and Socket.",
		.run = plugin_none,
	},
};

const struct check_group checks_plugins = CHECK_GROUP(checks);
