package act

import (
	"archive/tar"
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
	"strings"
	"sync"
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
	SeeHead(ctx context.Context, host, repo, head string, agents bool, at time.Time) error
	TrustedCommit(ctx context.Context, host, repo string) (string, error)
	TrustCommit(ctx context.Context, host, repo, commit, by string, at time.Time) error
}

// Commits are the repositories of agents as the supervisor reads them: into its own repositories, with its own configuration.
type Commits struct {
	Trust Trust
	Host  string
	Dir   string // private to the supervisor
	Clock ops.Clock

	mu      sync.Mutex
	working map[string]int // sessions that can change a repository now
}

// Watch notes what is checked out in the repositories that actions of the environment read, before a session can change them. The
// returned function notes it again when the session has ended.
func (c *Commits) Watch(ctx context.Context, env ops.Environment) (done func(context.Context) error, err error) {
	repos := c.used(env)
	for i, repo := range repos {
		if err := c.begin(ctx, repo); err != nil {
			for _, begun := range repos[:i] {
				err = errors.Join(err, c.end(ctx, begun))
			}
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		var errs []error
		for _, repo := range repos {
			errs = append(errs, c.end(ctx, repo))
		}
		return errors.Join(errs...)
	}, nil
}

func (c *Commits) begin(ctx context.Context, repo string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working == nil {
		c.working = map[string]int{}
	}
	if err := c.see(ctx, repo, true); err != nil {
		return err
	}
	c.working[repo]++
	return nil
}

func (c *Commits) end(ctx context.Context, repo string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working[repo]--; c.working[repo] <= 0 {
		delete(c.working, repo)
	}
	return c.see(ctx, repo, c.working[repo] > 0)
}

// see notes the commit that is checked out. A repository that cannot be read is not used by actions either.
func (c *Commits) see(ctx context.Context, repo string, agents bool) error {
	head, err := c.head(ctx, repo)
	if err != nil {
		head = "unreadable"
	}
	if err := c.Trust.SeeHead(ctx, c.Host, repo, head, agents, c.Clock()); err != nil {
		return err
	}
	if err != nil {
		return nil //nolint:nilerr // an empty or damaged repository must not keep agents from their work
	}
	dir, err := c.mirror(ctx, repo)
	if err != nil {
		return err
	}
	kept := "refs/claudeops/seen/" + head
	if _, err := os.Stat(filepath.Join(dir, kept)); err == nil {
		return nil
	}
	return c.fetch(ctx, repo, "HEAD", kept)
}

// used are the repositories that the actions of an environment read.
func (c *Commits) used(env ops.Environment) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range env.Policy.Inventory.Services {
		for _, a := range s.Actions {
			repo := a.Repository()
			if repo == "" || a.Kind == ops.ActionPush || env.ReposDir == "" || seen[repo] {
				continue
			}
			seen[repo] = true
			out = append(out, filepath.Join(env.ReposDir, repo))
		}
	}
	return out
}

// Approve records that a person approves the commit that is checked out, and returns it. It must be the one that was named, if one
// was.
func (c *Commits) Approve(ctx context.Context, env ops.Environment, repo, commit, by string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	folder := filepath.Join(env.ReposDir, repo)
	head, err := c.head(ctx, folder)
	if err != nil {
		return "", err
	}
	if len(commit) < 7 || !strings.HasPrefix(head, commit) {
		return "", ops.NewConflict(ops.ConflictChanged, "the commit %.12s is checked out in %s, not %s", head, repo, short(commit))
	}
	if err := c.fetch(ctx, folder, "HEAD", "refs/claudeops/seen/"+head); err != nil {
		return "", err
	}
	return head, c.Trust.TrustCommit(ctx, c.Host, folder, head, by, c.Clock())
}

// trusted is the newest commit that no agent made, and whether another one is checked out.
func (c *Commits) trusted(ctx context.Context, repo string) (commit string, other bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.see(ctx, repo, c.working[repo] > 0); err != nil {
		return "", false, err
	}
	commit, err = c.Trust.TrustedCommit(ctx, c.Host, repo)
	if err != nil || !commitForm().MatchString(commit) {
		return "", false, refuse(ruleInput, "A human has to commit, or to approve a commit (claudeops actions trust).",
			"No commit of %s is known that no agent made.", filepath.Base(repo))
	}
	head, err := c.head(ctx, repo)
	return commit, err != nil || head != commit, nil //nolint:nilerr // a damaged clone does not change what is trusted
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

// git runs git with nothing but our own configuration. The program that serves a clone gets the same.
func (c *Commits) git(ctx context.Context, dir string, args ...string) ([]byte, error) {
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
	out, err := execute(ctx, command{argv: append([]string{program}, args...), dir: dir, env: []string{
		"PATH=" + standardPath, "LANG=C", "HOME=" + c.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config, "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=file", "GIT_PAGER=cat",
	}})
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, short(strings.TrimSpace(out)))
	}
	return []byte(out), nil
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
