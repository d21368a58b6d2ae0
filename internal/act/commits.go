package act

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

const (
	gitLimit    = 2 * time.Minute
	maxCheckout = 512 << 20 // bytes
	maxFiles    = 100_000
	gitSettings = "gitconfig"
)

var commitForm = ops.Pattern(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Trust remembers which commits no agent made.
type Trust interface {
	// NoteCommit records a commit that is checked out, or that a session made. What is known of it stays.
	NoteCommit(ctx context.Context, host, repo, commit string, agent bool, at time.Time) error
	TrustedCommit(ctx context.Context, host, repo string) (string, error)
	TrustCommit(ctx context.Context, host, repo, commit, by string, at time.Time) error
	// CommitOrigin says who made a commit: operator, agent or approved; empty if it is not known.
	CommitOrigin(ctx context.Context, host, repo, commit string) (string, error)
}

// Commits are the repositories of agents as the supervisor reads them: into its own repositories, with its own configuration.
type Commits struct {
	Trust Trust
	Host  string
	Dir   string // private to the supervisor
	Clock ops.Clock
	// Steers tells the names of files that programs obey: git, editors, agents, forges.
	Steers func(path string) bool
	// Held tells whether walls keep every session of this machine from the repositories but for what it is lent; nil: they do.
	Held   func(repo string) bool
	Redact func(string) string // what is said of a session; nil: as it is
	// One is held while a clone is changed. Whoever changes the same clones shares it; nil: nobody else does.
	One *sync.Mutex

	own sync.Mutex
}

func (c *Commits) lock() (unlock func()) {
	one := cmp.Or(c.One, &c.own)
	one.Lock()
	return one.Unlock
}

// clone is the place of a clone.
func (c *Commits) clone(env ops.Environment, name string) string {
	return filepath.Join(cmp.Or(realFolder(env.ReposDir), env.ReposDir), name)
}

// Approve records that a person approves the commit that is checked out, or one of a session that was kept back and becomes a branch of the
// clone by it, and returns it. It must be the one that was named.
func (c *Commits) Approve(ctx context.Context, env ops.Environment, repo, commit, by string) (string, error) {
	defer c.lock()()
	folder := c.clone(env, repo)
	head, err := c.head(ctx, folder)
	if err != nil {
		return "", err
	}
	if len(commit) >= 7 && strings.HasPrefix(head, commit) {
		if err := c.fetch(ctx, folder, "HEAD", "refs/claudeops/seen/"+head); err != nil {
			return "", err
		}
		return head, c.Trust.TrustCommit(ctx, c.Host, folder, head, by, c.Clock())
	}
	dir, err := c.mirror(ctx, folder)
	if err != nil {
		return "", err
	}
	out, err := c.git(ctx, dir, "for-each-ref", "--format=%(objectname) %(refname)", keptBranches)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		hash, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		if len(commit) < 7 || !strings.HasPrefix(hash, commit) {
			continue
		}
		if err := c.Trust.TrustCommit(ctx, c.Host, folder, hash, by, c.Clock()); err != nil {
			return "", err
		}
		if _, err := c.move(ctx, branch{mirror: dir, repo: folder, name: strings.TrimPrefix(ref, keptBranches), tip: hash}); err != nil {
			return "", err
		}
		_, err = c.git(ctx, dir, "update-ref", "-d", ref)
		return hash, err
	}
	return "", ops.NewConflict(ops.ConflictChanged, "the commit %.12s is checked out in %s, not %s, and no such commit was kept back",
		head, repo, short(commit))
}

// trusted is the newest commit that no agent made.
func (c *Commits) trusted(ctx context.Context, repo string) (commit string, err error) {
	defer c.lock()()
	held := c.Held == nil || c.Held(repo)
	head, bad := c.head(ctx, repo) // a damaged clone does not change what is trusted
	if bad == nil {
		err = errors.Join(c.fetch(ctx, repo, "HEAD", "refs/claudeops/seen/"+head), c.Trust.NoteCommit(ctx, c.Host, repo, head, !held, c.Clock()))
	}
	if err != nil {
		return "", err
	}
	commit, err = c.Trust.TrustedCommit(ctx, c.Host, repo)
	if err != nil || !commitForm().MatchString(commit) {
		why := ""
		if !held {
			why = " No wall of this machine keeps agents from committing there."
		}
		return "", refuse(ruleInput, "A human has to commit, or to approve a commit (claudeops actions trust).",
			"No commit of %s is known that no agent made.%s", filepath.Base(repo), why)
	}
	return commit, nil
}

// checkClone refuses a clone whose parts lie elsewhere: the supervisor can read more than an agent.
func checkClone(repo string) error {
	root, err := os.OpenRoot(filepath.Dir(repo))
	if err != nil {
		return fmt.Errorf("open repositories: %w", err)
	}
	defer func() { _ = root.Close() }()
	name := filepath.Base(repo)
	for _, part := range []string{"", ".git", ".git/objects", ".git/refs"} {
		info, err := root.Lstat(path.Join(name, part))
		if err != nil {
			return fmt.Errorf("%s is not a repository: %w", name, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a repository: %s is not a folder", name, path.Join(name, part))
		}
	}
	for _, part := range []string{".git/objects/info/alternates", ".git/objects/info/http-alternates", ".git/commondir"} {
		if _, err := root.Lstat(path.Join(name, part)); err == nil {
			return fmt.Errorf("%s borrows from another repository (%s)", name, part)
		}
	}
	return checkLinks(root, path.Join(name, ".git"))
}

// checkLinks refuses links among what git reads: one to a branch or to objects of a private repository would be followed.
func checkLinks(root *os.Root, dir string) error {
	for _, part := range []string{"HEAD", "config", "config.worktree", "packed-refs", "shallow", "objects", "refs", "reftable"} {
		top := path.Join(dir, part)
		if info, err := root.Lstat(top); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a plain file or folder", top)
		}
		err := fs.WalkDir(root.FS(), top, func(name string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // it is not in every repository, or git has just removed it
			case err != nil:
				return fmt.Errorf("read repository: %w", err)
			case !e.IsDir() && !e.Type().IsRegular():
				return fmt.Errorf("%s is not a plain file or folder", name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// head is the commit that is checked out.
func (c *Commits) head(ctx context.Context, repo string) (string, error) {
	if err := checkClone(repo); err != nil {
		return "", err
	}
	out, err := c.git(ctx, "/", "ls-remote", "--quiet", "--", repo+"/.git", "HEAD")
	if err != nil {
		return "", err
	}
	commit, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	if !commitForm().MatchString(commit) {
		return "", fmt.Errorf("%s has no commit", filepath.Base(repo))
	}
	return commit, nil
}

// mirror is the supervisor's own repository for a clone.
func (c *Commits) mirror(ctx context.Context, repo string) (string, error) {
	sum := sha256.Sum256([]byte(repo))
	dir := filepath.Join(c.Dir, hex.EncodeToString(sum[:8])+".git")
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make repository: %w", err)
	}
	_, err := c.git(ctx, dir, "init", "--quiet", "--bare", "--template=", dir)
	return dir, err
}

// fetch copies a commit of a clone into the supervisor's own repository.
func (c *Commits) fetch(ctx context.Context, repo, from, to string) error {
	if err := checkClone(repo); err != nil {
		return err
	}
	dir, err := c.mirror(ctx, repo)
	if err != nil {
		return err
	}
	_, err = c.git(ctx, dir, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance",
		"--", repo+"/.git", "+"+from+":"+to)
	return err
}

// gitCall is one call of git.
type gitCall struct {
	dir   string
	args  []string
	input []byte
	owner bool // as the owner of the repository dir, in it
}

// git runs git with nothing but our own configuration, and returns what it prints. The program that serves a clone gets the same.
func (c *Commits) git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return c.call(ctx, gitCall{dir: dir, args: args})
}

func (c *Commits) call(ctx context.Context, g gitCall) ([]byte, error) {
	config := filepath.Join(c.Dir, gitSettings)
	if _, err := os.Stat(config); err != nil {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("make folder of repositories: %w", err)
		}
		// A clone may belong to the user of the agents.
		const text = "[safe]\n\tdirectory = *\n[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n[protocol \"ext\"]\n\tallow = never\n" +
			"[fetch]\n\tfsckObjects = true\n[gc]\n\tauto = 0\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write git configuration: %w", err)
		}
	}
	program, err := findProgram("git", standardPath)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	var out bytes.Buffer
	run := command{argv: append([]string{program}, g.args...), dir: g.dir, input: bytes.NewReader(g.input), output: &out, env: []string{
		"PATH=" + standardPath, "LANG=C", "HOME=" + c.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config, "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=file", "GIT_PAGER=cat",
	}}
	if g.owner {
		info, err := os.Lstat(g.dir)
		if err != nil {
			return nil, err
		}
		if stat, known := info.Sys().(*syscall.Stat_t); known && os.Geteuid() == 0 && stat.Uid != 0 {
			run.as = &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
		}
		run.argv = slices.Concat([]string{program, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"}, g.args)
		run.dir, run.env = "/", append(run.env, "GIT_CONFIG_GLOBAL=/dev/null", "HOME=/nonexistent", "GIT_DIR="+g.dir,
			"GIT_COMMITTER_NAME=claudeops", "GIT_COMMITTER_EMAIL=claudeops@"+c.Host)
	}
	if said, err := execute(ctx, run); err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", g.args[0], err, short(strings.TrimSpace(said)))
	}
	return out.Bytes(), nil
}

// checkout writes the files of a commit into a new folder, which has the name of the clone. Links are left out.
func (c *Commits) checkout(ctx context.Context, repo, commit string) (folder string, remove func(), err error) {
	dir, err := c.mirror(ctx, repo)
	if err != nil {
		return "", nil, err
	}
	place, err := os.MkdirTemp(c.Dir, "checkout-")
	if err != nil {
		return "", nil, fmt.Errorf("check out: %w", err)
	}
	remove = func() { _ = os.RemoveAll(place) }
	folder = filepath.Join(place, filepath.Base(repo))
	archive := filepath.Join(place, "archive.tar")
	if _, err := c.git(ctx, dir, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		remove()
		return "", nil, err
	}
	if err := errors.Join(os.Mkdir(folder, 0o700), unpack(archive, folder), os.Remove(archive)); err != nil {
		remove()
		return "", nil, fmt.Errorf("check out %s: %w", filepath.Base(repo), err)
	}
	return folder, remove, nil
}

// unpack writes the plain files and folders of an archive.
func unpack(archive, folder string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var written int64
	reader := tar.NewReader(f)
	for files := 0; ; files++ {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if written += h.Size; written > maxCheckout || files > maxFiles {
			return errors.New("the repository is too large")
		}
		if err := unpackOne(root, h, reader); err != nil {
			return err
		}
	}
}

func unpackOne(root *os.Root, h *tar.Header, r io.Reader) error {
	name := path.Clean(h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o700)
	case tar.TypeReg:
	default:
		return nil // a link could lead anywhere
	}
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o600)
	if h.FileInfo().Mode()&0o100 != 0 {
		mode = 0o700
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// regular reports whether a file of a checkout exists as a plain file.
func regular(folder, name string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return refuse(ruleInput, "Commit it as a plain file.", "The trusted commit has no file %s.", name)
	}
	return nil
}

// abbreviated is a commit as people write it.
func abbreviated(commit string) string { return commit[:min(len(commit), 12)] }
