/*
 * Where symlinks lead, and the names of one folder that clash: the rules over a whole tree.
 *
 * A target's own ".." are leading and no more than the link's real depth, and what follows a link
 * inside a target are names only; so by resolving each link from its real place nothing can get above
 * the root. The walk checks that at each step all the same: it is the promise that installing rests
 * on, and it must not depend on the wording of another file.
 *
 * Each link is walked once and its end remembered, so the cost is the sum of the targets' components,
 * not their product; links on the way that are not resolved yet wait on a stack of at most 40.
 */
#include <string.h>

#include "packs/tree_priv.h"

/* A link that is being walked. */
struct walk {
	uint32_t link;
	uint32_t at;   /* the node reached so far */
	uint32_t next; /* position in the target */
	unsigned hops;
};

struct walks {
	struct walk stack[LDR_TREE_HOPS_MAX];
	unsigned count;
};

static enum ldr_status begin_walk(const struct ldr_tree *tree, struct walks *walks, uint32_t link,
				  struct ldr_error *err)
{
	char quoted[LDR_QUOTE_BYTES];

	if (walks->count == LDR_TREE_HOPS_MAX)
		return ldr_fail(err, LDR_ELINK, "symlink %s: leads through more than %u symlinks",
				ldr_tree_quote(tree, walks->stack[0].link, quoted),
				LDR_TREE_HOPS_MAX);
	walks->stack[walks->count++] = (struct walk){
		.link = link, .at = tree->nodes[link].parent, .hops = 1};
	return LDR_OK;
}

static void end_walk(struct ldr_tree *tree, struct walks *walks, uint32_t where)
{
	struct walk *walk = &walks->stack[--walks->count];

	tree->nodes[walk->link].link_to = where;
	tree->nodes[walk->link].link_hops = (uint8_t)walk->hops;
}

/* Goes on from a link that the walk has come to and whose end is known. */
static enum ldr_status pass_link(struct ldr_tree *tree, struct walks *walks, uint32_t link,
				 struct ldr_error *err)
{
	struct walk *walk = &walks->stack[walks->count - 1];
	const struct ldr_tree_entry *entry = tree->nodes + link;
	char quoted[LDR_QUOTE_BYTES];

	walk->hops += entry->link_hops;
	if (walk->hops > LDR_TREE_HOPS_MAX)
		return ldr_fail(err, LDR_ELINK, "symlink %s: leads through %u symlinks, limit %u",
				ldr_tree_quote(tree, walk->link, quoted), walk->hops,
				LDR_TREE_HOPS_MAX);
	if (entry->link_to == LDR_LINK_DANGLING || entry->link_to == LDR_LINK_NOTDIR)
		end_walk(tree, walks, entry->link_to);
	else
		walk->at = entry->link_to;
	return LDR_OK;
}

/* The component at the walk's position: into *out_length, and the position moves past it. */
static const char *next_component(const struct ldr_tree *tree, struct walk *walk,
				  size_t *out_length)
{
	const struct ldr_tree_entry *link = tree->nodes + walk->link;
	const char *target = ldr_tree_text(tree, link->name_at) + link->name_bytes;
	const char *from = target + walk->next;
	const char *slash = memchr(from, '/', link->target_bytes - walk->next);

	*out_length = slash ? (size_t)(slash - from) : link->target_bytes - walk->next;
	walk->next += (uint32_t)*out_length + (slash ? 1 : 0);
	return from;
}

static enum ldr_status step_walk(struct ldr_tree *tree, struct walks *walks, struct ldr_error *err)
{
	struct walk *walk = &walks->stack[walks->count - 1];
	uint32_t back = walk->next, child;
	char quoted[LDR_QUOTE_BYTES];
	const char *name;
	size_t length;

	if (walk->next == tree->nodes[walk->link].target_bytes) {
		end_walk(tree, walks, walk->at);
		return LDR_OK;
	}
	name = next_component(tree, walk, &length);
	if (ldr_tree_kind(tree->nodes + walk->at) != LDR_KIND_FOLDER) {
		end_walk(tree, walks, LDR_LINK_NOTDIR);
		return LDR_OK;
	}
	if (length == 2 && !memcmp(name, "..", 2)) {
		if (!walk->at)
			return ldr_fail(err, LDR_ELINK, "symlink %s leaves the tree",
					ldr_tree_quote(tree, walk->link, quoted));
		walk->at = tree->nodes[walk->at].parent;
		return LDR_OK;
	}
	child = ldr_tree_child(tree, walk->at, name, length);
	if (!child) {
		end_walk(tree, walks, LDR_LINK_DANGLING);
		return LDR_OK;
	}
	if (ldr_tree_kind(tree->nodes + child) != LDR_KIND_SYMLINK) {
		walk->at = child;
		return LDR_OK;
	}
	if (tree->nodes[child].link_to != LDR_LINK_UNRESOLVED)
		return pass_link(tree, walks, child, err);
	walk->next = back; /* once more, when that link's end is known */
	return begin_walk(tree, walks, child, err);
}

enum ldr_status ldr_tree_resolve_links(struct ldr_tree *tree, struct ldr_error *err)
{
	struct walks walks = {.count = 0};

	for (uint32_t node = 1; node < tree->node_count; node++) {
		enum ldr_status status = LDR_OK;

		if (ldr_tree_kind(tree->nodes + node) != LDR_KIND_SYMLINK ||
		    tree->nodes[node].link_to != LDR_LINK_UNRESOLVED)
			continue;
		status = begin_walk(tree, &walks, node, err);
		while (!status && walks.count)
			status = step_walk(tree, &walks, err);
		if (status)
			return status;
	}
	return LDR_OK;
}

/* ---- names that clash after folding ------------------------------------------------------------- */

struct folded {
	char text[4 * LDR_NAME_MAX_BYTES];
	size_t length;
};

static bool fold(const struct ldr_tree *tree, uint32_t node, struct folded *out)
{
	const struct ldr_tree_entry *entry = tree->nodes + node;

	return ldr_name_fold(ldr_tree_text(tree, entry->name_at), entry->name_bytes, out->text,
			     sizeof(out->text), &out->length);
}

static enum ldr_status fail_clash(const struct ldr_tree *tree, uint32_t first, uint32_t second,
				  struct ldr_error *err)
{
	const struct ldr_tree_entry *entry = tree->nodes + second;
	char quoted[LDR_QUOTE_BYTES], other[LDR_QUOTE_BYTES];

	return ldr_fail(
		err, LDR_EINVAL, "%s and %s differ in case only",
		ldr_tree_quote(tree, first, quoted),
		ldr_path_quote(ldr_tree_text(tree, entry->name_at), entry->name_bytes, other));
}

static enum ldr_status add_folded(const struct ldr_tree *tree, struct ldr_tree_table *table,
				  uint32_t node, struct ldr_error *err)
{
	uint32_t parent = tree->nodes[node].parent;
	char quoted[LDR_QUOTE_BYTES];
	struct folded mine, other;
	uint64_t hash;
	uint32_t at;

	if (!fold(tree, node, &mine))
		return ldr_fail(err, LDR_EINVAL, "%s cannot be folded",
				ldr_tree_quote(tree, node, quoted));
	hash = ldr_tree_hash(tree->nodes[parent].hash, mine.text, mine.length);
	for (at = ldr_tree_slot_of(table, hash); table->slots[at].node;
	     at = (at + 1) & table->mask) {
		uint32_t there = table->slots[at].node;

		if (table->slots[at].tag == (uint32_t)(hash >> 32) &&
		    tree->nodes[there].parent == parent && fold(tree, there, &other) &&
		    other.length == mine.length && !memcmp(other.text, mine.text, mine.length))
			return fail_clash(tree, there, node, err);
	}
	table->slots[at] = (struct ldr_tree_slot){(uint32_t)(hash >> 32), node};
	return LDR_OK;
}

/* Only folders with a name that is not its own folded form can hold a clash: the other names are
 * distinct already. */
static bool may_clash(const struct ldr_tree *tree, uint32_t node)
{
	return tree->nodes[tree->nodes[node].parent].kind_mode & LDR_TREE_FOLDS;
}

enum ldr_status ldr_tree_check_clashes(const struct ldr_tree *tree, struct ldr_error *err)
{
	struct ldr_tree_memory memory = {0};
	struct ldr_tree_table table;
	enum ldr_status status;
	uint32_t count = 0;

	for (uint32_t node = 1; node < tree->node_count; node++)
		count += may_clash(tree, node);
	if (!count)
		return LDR_OK;
	status = ldr_tree_memory_take(&memory, ldr_tree_slot_count(count) * sizeof(*table.slots),
				      err);
	table.slots = memory.bytes;
	table.mask = (uint32_t)ldr_tree_slot_count(count) - 1;
	for (uint32_t node = 1; node < tree->node_count && !status; node++)
		if (may_clash(tree, node))
			status = add_folded(tree, &table, node, err);
	ldr_tree_memory_give(&memory);
	return status;
}
