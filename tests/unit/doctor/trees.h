/* SPDX-License-Identifier: BSD-3-Clause */
/* The kept trees, and an examination of one with something laid over it. */
#ifndef TESTS_DOCTOR_TREES_H
#define TESTS_DOCTOR_TREES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/exam.h"

static const char *const trees[] = {
	"mlx5-roce", "mlx5-ib", "bnxt-re", "irdma", "vf", "container"
};

#define TREE_COUNT (sizeof(trees) / sizeof(trees[0]))

/* Returns the contents of a file of the trees, which the caller frees. */
static char *tree_text(const char *name)
{
	char path[512];
	FILE *file;
	char *text = calloc(1, 1 << 20);
	size_t length;

	snprintf(path, sizeof(path), "%s/%s", TREES, name);
	file = fopen(path, "re");
	if (!file || !text) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	length = fread(text, 1, (1 << 20) - 1, file);
	text[length] = '\0';
	fclose(file);
	return text;
}

/* Opens a tree with an overlay, which may be "". */
static struct reader *tree_open(const char *name, const char *overlay)
{
	char file[64];
	char *host = tree_text("host.tree"), *tree;
	const char *texts[3];
	struct reader *reader = NULL;
	int rc;

	snprintf(file, sizeof(file), "%s.tree", name);
	tree = tree_text(file);
	texts[0] = host;
	texts[1] = tree;
	texts[2] = overlay;
	rc = reader_open_text(texts, 3, &reader);
	if (rc) {
		fprintf(stderr, "%s with this overlay is no tree:\n%s\n", name, overlay);
		exit(1);
	}
	free(host);
	free(tree);
	return reader;
}

static inline void tree_examine(const char *name, const char *overlay, enum intent intent,
				struct diagnosis *out)
{
	const struct exam_attr attr = { .intent = intent };
	struct reader *reader = tree_open(name, overlay);

	*out = (struct diagnosis){ 0 };
	if (exam_run(reader, &attr, out) != 0)
		exit(1);
	reader_close(reader);
}

/* Reads every text of a diagnosis: what it was made from is gone by then, and a sanitizer sees a text that went with it. */
static inline void diagnosis_read(const struct diagnosis *diagnosis)
{
	json_t *object = diagnosis_json(diagnosis);

	if (!object)
		exit(1);
	json_decref(object);
}

static inline const struct finding *finding_of(const struct diagnosis *diagnosis, const char *check)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		if (strcmp(diagnosis->findings[i].check, check) == 0)
			return &diagnosis->findings[i];
	}
	return NULL;
}

static inline const struct unknown *unknown_of(const struct diagnosis *diagnosis, const char *check)
{
	for (size_t i = 0; i < diagnosis->unknown_count; i++) {
		if (strcmp(diagnosis->unknowns[i].check, check) == 0)
			return &diagnosis->unknowns[i];
	}
	return NULL;
}

#endif
