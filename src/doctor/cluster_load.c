/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a cluster: what each is, is seen from its beginning. A capture is a tar file, a directory with .godwit in it or
 * a manifest (.tree); results of the mesh are a JSON object; every other file is taken for a log.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster.h"

#define DEPTH_MAX      4u
#define TAR_MAGIC_AT   257
#define MESH_BYTES_MAX (512u << 20)

/* Adds a host's findings to those of the others: one entry for each check. */
static void merge_finding(struct cluster *cluster, const char *host, const struct finding *from)
{
	struct cluster_finding *merged = NULL;
	struct scratch *scratch = &cluster->scratch;

	for (size_t i = 0; i < cluster->finding_count && !merged; i++) {
		if (strcmp(cluster->findings[i].finding.check, from->check) == 0 &&
		    cluster->findings[i].finding.severity == from->severity)
			merged = &cluster->findings[i];
	}
	if (!merged) {
		if (cluster->finding_count == cluster->finding_room) {
			size_t room = cluster->finding_room ? cluster->finding_room * 2 : 32;
			struct cluster_finding *larger =
				scratch_alloc(scratch, room * sizeof(*larger));

			if (cluster->finding_count)
				memcpy(larger, cluster->findings,
				       cluster->finding_count * sizeof(*larger));
			cluster->findings = larger;
			cluster->finding_room = room;
		}
		merged = &cluster->findings[cluster->finding_count++];
		/* check, title, healthy and why are the table's own or live in it. */
		merged->finding = *from;
		merged->finding.title = scratch_print(scratch, "%s", from->title);
		merged->finding.healthy = scratch_print(scratch, "%s", from->healthy);
		merged->finding.why = scratch_print(scratch, "%s", from->why);
		merged->finding.fix = scratch_print(scratch, "%s", from->fix ? from->fix : "");
		merged->finding.object = scratch_print(scratch, "%s", from->object);
		merged->finding.value = scratch_print(scratch, "%s", from->value);
		merged->finding.where = scratch_print(scratch, "%s", from->where);
		merged->finding.brief = NULL;
	}
	if (merged->last_host == host)
		return;
	if (merged->count < 8)
		builder_print(&merged->hosts, "%s%s", merged->count ? ", " : "", host);
	merged->last_host = host;
	merged->count++;
}

static void take_diagnosis(struct cluster *cluster, struct cluster_host *host,
			   struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		struct finding *finding = &diagnosis->findings[i];

		/* A full link is no fault of a host; of a cluster that is too slow it may be the reason. */
		if (strcmp(finding->check, "link-busy") == 0)
			finding->severity = SEVERITY_WARNING;
		if (finding->severity > SEVERITY_INFO)
			merge_finding(cluster, host->name, finding);
	}
	for (size_t i = 0; i < diagnosis->note_count; i++) {
		const struct note *note = &diagnosis->notes[i];

		if (strcmp(note->topic, "plugin") == 0)
			host_facts_add(&host->facts, ASPECT_PLUGIN, "plugin of NCCL", note->text,
				       note->object);
	}
	cluster->unknown_count += diagnosis->unknown_count;
}

int cluster_add_host(struct cluster *cluster, const char *file, struct reader *reader,
		     const struct exam_attr *attr)
{
	struct cluster_host *host;
	struct diagnosis diagnosis = { 0 };
	struct exam_attr own = *attr;
	int rc;

	if (cluster->host_count == CLUSTER_HOSTS_MAX) {
		reader_close(reader);
		return 0;
	}
	host = scratch_alloc(&cluster->scratch, sizeof(*host));
	host->facts.scratch = &cluster->scratch;
	own.facts = &host->facts;
	rc = exam_run(reader, &own, &diagnosis);
	if (rc == 0) {
		struct cluster_host **all = cluster->hosts;

		host->file = scratch_print(&cluster->scratch, "%s", file);
		host->name = scratch_print(&cluster->scratch, "%s", diagnosis.host);
		if ((cluster->host_count & (cluster->host_count - 1)) == 0) {
			all = scratch_alloc(&cluster->scratch,
					    (cluster->host_count ? cluster->host_count * 2 : 1) *
						    sizeof(all[0]));
			if (cluster->host_count)
				memcpy(all, cluster->hosts, cluster->host_count * sizeof(all[0]));
		}
		cluster->hosts = all;
		cluster->hosts[cluster->host_count++] = host;
		take_diagnosis(cluster, host, &diagnosis);
	}
	diagnosis_free(&diagnosis);
	reader_close(reader);
	return rc;
}

static int load_capture(struct cluster *cluster, const char *path, const char *shown,
			const struct exam_attr *attr)
{
	const struct reader_attr source = { .root = path };
	struct reader *reader;
	int rc = reader_open(&source, &reader);

	return rc ? rc : cluster_add_host(cluster, shown, reader, attr);
}

static void strange(struct cluster *cluster, const char *shown)
{
	cluster->strange_count++;
	if (!cluster->strange)
		cluster->strange = scratch_print(&cluster->scratch, "%s", shown);
}

static void load_json(struct cluster *cluster, int fd, const char *shown, off_t size)
{
	json_t *root = NULL;
	FILE *file;

	if (size <= (off_t)MESH_BYTES_MAX && (file = fdopen(dup(fd), "r"))) {
		root = json_loadf(file, 0, NULL);
		fclose(file);
	}
	if (root && mesh_read(&cluster->mesh, &cluster->scratch,
			      scratch_print(&cluster->scratch, "%s", shown), root) == 0)
		cluster->meshed = true;
	else
		strange(cluster, shown);
	json_decref(root);
}

static int load_file(struct cluster *cluster, const char *path, const char *shown,
		     const struct exam_attr *attr)
{
	/* A pipe would make us wait. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	unsigned long before = cluster->log.nccl_lines + cluster->log.torch_lines;
	char head[512] = "";
	struct stat status;
	ssize_t got;

	if (fd < 0) {
		strange(cluster, shown);
		return 0;
	}
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		strange(cluster, shown);
		close(fd);
		return 0;
	}
	got = pread(fd, head, sizeof(head) - 1, 0);
	if ((got > TAR_MAGIC_AT + 5 && memcmp(head + TAR_MAGIC_AT, "ustar", 5) == 0) ||
	    (strlen(shown) > 5 && strcmp(shown + strlen(shown) - 5, ".tree") == 0)) {
		rc = load_capture(cluster, path, shown, attr);
		if (rc == -EINVAL) {
			strange(cluster, shown);
			rc = 0;
		}
	} else if (head[strspn(head, " \t\r\n")] == '{') {
		load_json(cluster, fd, shown, status.st_size);
	} else {
		rc = joblog_read_fd(&cluster->log, shown, fd);
		if (rc == 0 && cluster->log.nccl_lines + cluster->log.torch_lines == before)
			strange(cluster, shown);
		else
			cluster->logs = true;
	}
	close(fd);
	return rc;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int load_directory(struct cluster *cluster, const char *path, const char *shown,
			  const struct exam_attr *attr, unsigned depth)
{
	struct dirent **entries = NULL;
	int count, rc = 0;
	struct stat status;
	const char *inside = scratch_print(&cluster->scratch, "%s/.godwit", path);

	if (depth && stat(inside, &status) == 0 && S_ISDIR(status.st_mode))
		return load_capture(cluster, path, shown, attr);
	count = scandir(path, &entries, NULL, by_name);
	if (count < 0)
		return -errno;
	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (name[0] != '.' && rc == 0) {
			const char *full = scratch_print(&cluster->scratch, "%s/%s", path, name);
			const char *own = scratch_print(&cluster->scratch, "%s%s%s", shown,
							shown[0] ? "/" : "", name);

			if (stat(full, &status) == 0 && S_ISDIR(status.st_mode))
				rc = depth < DEPTH_MAX
					     ? load_directory(cluster, full, own, attr, depth + 1)
					     : 0;
			else
				rc = load_file(cluster, full, own, attr);
		}
		free(entries[i]);
	}
	free(entries);
	return rc;
}

int cluster_load(struct cluster *cluster, const char *directory, const struct exam_attr *attr)
{
	int rc = exam_attr_check(attr);

	if (rc == 0)
		rc = load_directory(cluster, directory, "", attr, 0);

	joblog_seal(&cluster->log);
	return rc;
}

void cluster_free(struct cluster *cluster)
{
	for (size_t i = 0; i < cluster->finding_count; i++)
		builder_free(&cluster->findings[i].hosts);
	joblog_free(&cluster->log);
	scratch_free(&cluster->scratch);
	*cluster = (struct cluster){ 0 };
}
