package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// keptBranches are branches of sessions that wait for a person, in the supervisor's own repository.
const keptBranches = "refs/claudeops/kept/"

// branch is a branch of a session's copy on its way to the operator's clone.
type branch struct {
	mirror, repo string
	name, tip    string
}

// bring copies what a session committed into the clone of the operator, branch by branch: checked by git, with the session as its author,
// and without files that programs obey. What is not brought is kept for a person to look at.
func (c *Commits) bring(ctx context.Context, l *Loan, repo string) {
	err := c.bringAll(ctx, l, repo)
	l.failed("bring back what the session committed to "+repo, err)
}

func (c *Commits) bringAll(ctx context.Context, l *Loan, repo string) error {
	if err := checkClone(repo); err != nil {
		return err
	}
	had, _, err := refsOf(filepath.Join(repo, ".git"))
	if err != nil {
		return err
	}
	mirror, err := c.mirror(ctx, repo)
	if err != nil {
		return err
	}
	refs, err := c.snapshot(ctx, l, repo, mirror)
	if err != nil {
		return err
	}
	known := slices.Sorted(maps.Values(had))
	var errs []error
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		name, isBranch := strings.CutPrefix(ref, "refs/heads/")
		if _, old := slices.BinarySearch(known, refs[ref]); !isBranch || old {
			continue
		}
		b := branch{mirror: mirror, repo: repo, name: name, tip: refs[ref]}
		errs = append(errs, c.take(ctx, l, b, known))
	}
	return errors.Join(errs...)
}

// snapshot copies the new objects of a session's copy, which git never works in: its settings and links are the session's. What is read of
// them is fetched into the supervisor's own repository.
func (c *Commits) snapshot(ctx context.Context, l *Loan, repo, mirror string) (map[string]string, error) {
	own, err := os.OpenRoot(l.Folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = own.Close() }()
	git, err := own.OpenRoot(l.Git[repo])
	if err != nil {
		return nil, err
	}
	defer func() { _ = git.Close() }()
	refs, head, err := readRefs(git)
	if err != nil {
		return nil, err
	}
	place, err := os.MkdirTemp(c.Dir, "session-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(place) }()
	heads := maps.Clone(refs)
	maps.DeleteFunc(heads, func(name, _ string) bool { return !strings.HasPrefix(name, "refs/heads/") })
	if err := newGit(place, "[core]\n\tbare = true\n", head, heads, filepath.Join(repo, ".git/objects")); err != nil {
		return nil, err
	}
	left := int64(maxCheckout)
	err = fs.WalkDir(git.FS(), "objects", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !objectForm().MatchString(name) {
			return err
		}
		from, err := git.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }()
		if strings.HasSuffix(name, ".pack") { // git rebuilds the index
			raw, err := io.ReadAll(io.LimitReader(from, left+1))
			if left -= int64(len(raw)); err == nil && left >= 0 {
				_, err = c.call(ctx, gitCall{dir: place, input: raw, args: []string{"index-pack", "--stdin", "--fix-thin"}})
			}
			return err
		}
		at := filepath.Join(place, name)
		to, err := create(at)
		if err != nil {
			return err
		}
		n, err := io.Copy(to, io.LimitReader(from, left+1))
		if left -= n; left < 0 {
			err = errors.New("it committed too much")
		}
		return errors.Join(err, to.Close())
	})
	if err != nil || len(heads) == 0 {
		return heads, err
	}
	_, err = c.git(ctx, mirror, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--prune", "--",
		place, "+refs/heads/*:refs/claudeops/session/*")
	return heads, err
}

var objectForm = ops.Pattern(`^objects/([0-9a-f]{2}/[0-9a-f]{38,62}|pack/[^/]+\.pack)$`)

func create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// made lists the commits of a branch that are not among the operator's, and the operator's that they were made from.
func (c *Commits) made(ctx context.Context, b branch, known []string) (made, edge []string, err error) {
	out, err := c.call(ctx, gitCall{dir: b.mirror, input: []byte(b.tip + "\n^" + strings.Join(known, "\n^") + "\n"), args: []string{
		"rev-list", "--reverse", "--topo-order", "--boundary", "--ignore-missing", "--stdin",
	}})
	for line := range strings.Lines(string(out)) {
		if commit, isEdge := strings.CutPrefix(strings.TrimSpace(line), "-"); isEdge {
			edge = append(edge, commit)
		} else {
			made = append(made, commit)
		}
	}
	if len(made) > mostReturned {
		err = fmt.Errorf("the branch %s has %d new commits, more than %d", b.name, len(made), mostReturned)
	}
	return made, edge, err
}

// take brings back one branch.
func (c *Commits) take(ctx context.Context, l *Loan, b branch, known []string) error {
	made, edge, err := c.made(ctx, b, known)
	if err != nil || len(made) == 0 {
		return err
	}
	if made, err = c.sign(ctx, b.mirror, made, l.who(c.Host)); err != nil {
		return err
	}
	b.tip = made[len(made)-1]
	for _, commit := range made {
		if err := c.Trust.NoteCommit(ctx, c.Host, b.repo, commit, true, c.Clock()); err != nil {
			return err
		}
	}
	touched, err := c.touches(ctx, b.mirror, b.tip, edge)
	if err != nil {
		return err
	}
	name := filepath.Base(b.repo)
	if len(touched) > 0 {
		l.note(ops.VerbCommitKept, ops.LevelWarning, "The session committed %s to the branch %s of %s, which touches %s: programs obey that, so "+
			"the branch is kept back. To let it go: claudeops actions trust %s %s.",
			abbreviated(b.tip), b.name, name, listed(touched[:min(len(touched), 5)]), name, abbreviated(b.tip))
		_, err := c.git(ctx, b.mirror, "update-ref", keptBranches+b.name, b.tip)
		return err
	}
	to, err := c.move(ctx, b)
	if err == nil {
		l.note(ops.VerbCommitReturned, ops.LevelInfo, "The session committed %s; it is the branch %s of %s now.", abbreviated(b.tip), to, name)
	}
	return err
}

// move puts a branch into the clone of the operator, as the user whose clone it is. A branch that the operator made or has checked out is
// left as it is.
func (c *Commits) move(ctx context.Context, b branch) (to string, err error) {
	git := filepath.Join(b.repo, ".git")
	had, head, err := refsOf(git)
	if err != nil {
		return "", err
	}
	to = b.name
	before, origin := had["refs/heads/"+to], originAgent
	if before != "" {
		if origin, err = c.Trust.CommitOrigin(ctx, c.Host, b.repo, before); err != nil {
			return "", err
		}
	}
	if origin != originAgent || head == "ref: refs/heads/"+to || !branchForm().MatchString(to) {
		plain := strings.Map(func(r rune) rune {
			if branchForm().MatchString(string(r)) {
				return r
			}
			return '-'
		}, strings.TrimPrefix(to, "claudeops/"))
		to = "claudeops/" + ops.Cut(plain, 100) + "-" + abbreviated(b.tip)
		before = had["refs/heads/"+to]
	}
	_, edge, err := c.made(ctx, b, slices.Collect(maps.Values(had)))
	if err != nil {
		return "", err
	}
	revs := strings.Join(append([]string{b.tip}, edge...), "\n^") + "\n"
	pack, err := c.call(ctx, gitCall{dir: b.mirror, input: []byte(revs), args: []string{"pack-objects", "--revs", "--stdout", "--quiet"}})
	if err == nil {
		_, err = c.call(ctx, gitCall{dir: git, owner: true, input: pack, args: []string{"unpack-objects", "-q", "--strict"}})
	}
	if err == nil {
		_, err = c.call(ctx, gitCall{dir: git, owner: true, args: []string{
			"update-ref", "refs/heads/" + to, b.tip, cmp.Or(before, strings.Repeat("0", len(b.tip))),
		}})
	}
	return to, err
}

// originAgent is what the record says of a commit that a session made, originApproved of one that a person approved.
const (
	originAgent    = "agent"
	originApproved = "approved"
)

// sign makes the session the author of its commits, whatever they say, and returns them as they are then.
func (c *Commits) sign(ctx context.Context, mirror string, made []string, who string) ([]string, error) {
	out, err := c.call(ctx, gitCall{dir: mirror, input: []byte(strings.Join(made, "\n") + "\n"), args: []string{"cat-file", "--batch"}})
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	signed := make([]string, 0, len(made))
	for _, commit := range made {
		var hash, kind string
		var size int
		line, rest, _ := strings.Cut(string(out), "\n")
		if _, err := fmt.Sscan(line, &hash, &kind, &size); err != nil || hash != commit || kind != "commit" || size >= len(rest) {
			return nil, fmt.Errorf("read commit %s: %q", commit, short(line))
		}
		text := rest[:size]
		out = []byte(rest[size+1:])
		now[commit] = commit
		if mine := signedBy(text, who, now); mine != text {
			written, err := c.call(ctx, gitCall{dir: mirror, input: []byte(mine), args: []string{"hash-object", "-t", "commit", "-w", "--stdin"}})
			if err != nil {
				return nil, err
			}
			now[commit] = strings.TrimSpace(string(written))
		}
		signed = append(signed, now[commit])
	}
	return signed, nil
}

// signedBy is a commit with another author, and with parents that were changed as well. Nobody has signed that.
func signedBy(text, who string, now map[string]string) string {
	head, message, _ := strings.Cut(text, "\n\n")
	var out []string
	dropped := false
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		if key != "" { // else it belongs to the line before
			dropped = strings.HasPrefix(key, "gpgsig")
		}
		switch key {
		case "parent":
			value = cmp.Or(now[value], value)
		case "author", "committer":
			value = who + value[strings.LastIndex(value, ">")+1:]
		}
		if !dropped {
			out = append(out, key+" "+value)
		}
	}
	return strings.Join(out, "\n") + "\n\n" + message
}

// touches names what a commit holds that programs obey, and that is not just so in one of the others.
func (c *Commits) touches(ctx context.Context, mirror, commit string, others []string) ([]string, error) {
	mine, err := c.steering(ctx, mirror, commit)
	if err != nil {
		return nil, err
	}
	least := slices.Sorted(maps.Keys(mine))
	for i, other := range others {
		theirs, err := c.steering(ctx, mirror, other)
		if err != nil {
			return nil, err
		}
		var differ []string
		for name := range mine {
			if theirs[name] != mine[name] {
				differ = append(differ, name)
			}
			delete(theirs, name)
		}
		differ = slices.AppendSeq(differ, maps.Keys(theirs))
		if slices.Sort(differ); i == 0 || len(differ) < len(least) {
			least = differ
		}
	}
	return least, nil
}

// steering is what programs obey in the files of a commit.
func (c *Commits) steering(ctx context.Context, mirror, commit string) (map[string]string, error) {
	out, err := c.call(ctx, gitCall{dir: mirror, args: []string{"ls-tree", "-r", "-z", "--full-tree", commit}})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if what, name, _ := strings.Cut(entry, "\t"); c.Steers(name) {
			found[name] = what
		}
	}
	return found, nil
}

// sendable refuses a commit for a push that holds files which programs obey and no person has approved.
func (c *Commits) sendable(ctx context.Context, repo, commit string) error {
	origin, err := c.Trust.CommitOrigin(ctx, c.Host, repo, commit)
	if err != nil || origin == originApproved {
		return err
	}
	mirror, err := c.mirror(ctx, repo)
	if err != nil {
		return err
	}
	var others []string
	if trusted, err := c.trusted(ctx, repo); err == nil {
		others = append(others, trusted)
		if out, err := c.git(ctx, mirror, "merge-base", trusted, commit); err == nil { // they may have nothing in common
			others = append(others, strings.TrimSpace(string(out)))
		}
	}
	touched, err := c.touches(ctx, mirror, commit, others)
	if err == nil && len(touched) > 0 {
		instead := fmt.Sprintf("A human looks at it first: claudeops actions trust %s %s.", filepath.Base(repo), abbreviated(commit))
		return refuse(ruleInput, instead, "The branch touches %s, which programs obey.", listed(touched[:min(len(touched), 5)]))
	}
	return err
}
