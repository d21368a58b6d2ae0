package agent

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

const openMode = 0o755 // agents run as another user, whatever the umask is

// Package is a package of npm that holds the native program of an agent.
type Package struct {
	Name    string // with its version
	Sum     string // as npm writes it
	Version string // of the program
	Program string // the name under which it is found
	Folder  string // of the archive: what is unpacked
	Path    string // of the program in it
}

// Platform is how npm names this machine.
func Platform() string {
	return runtime.GOOS + "-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
}

// Install puts the program of a package into a folder and returns its path. Only what has the checksum is unpacked, and only a program of
// which its adapter says that it is the known version takes the place of one that is there.
func Install(ctx context.Context, p Package, folder string, env []string, adapter func(program string) Adapter) (string, error) {
	npm, err := Find("npm", "", env)
	if err != nil {
		return "", fmt.Errorf("npm, which downloads and needs to be there only for that, was not found in PATH: install it, or copy the program "+
			"%s, version %s, to %s", p.Program, p.Version, folder)
	}
	if err = os.MkdirAll(filepath.Dir(folder), 0o700); err == nil {
		err = os.Mkdir(folder, openMode)
	}
	if err == nil {
		err = os.Chmod(folder, openMode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make folder: %w", err)
	}
	dir, err := os.MkdirTemp(folder, ".install-*")
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	//nolint:gosec // the operator's npm
	pack := exec.CommandContext(ctx, npm.File, "pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", dir, p.Name)
	pack.Dir, pack.Env = dir, env
	if out, err := pack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("download %s with npm: %w: %s", p.Name, err, strings.TrimSpace(string(out)))
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if len(archives) != 1 {
		return "", fmt.Errorf("download %s with npm: it left %d archives", p.Name, len(archives))
	}
	files := filepath.Join(dir, "files")
	if err := p.unpack(archives[0], files); err != nil {
		return "", fmt.Errorf("unpack %s: %w; nothing was installed", p.Name, err)
	}
	able := adapter(filepath.Join(files, p.Path)).Able(ctx, env)
	if able.Version != p.Version {
		return "", fmt.Errorf("the program of %s says it is version %q; nothing was installed: %s", p.Name, able.Version, able.Why)
	}
	path, err := p.place(files, folder)
	return ops.Returning(path, err, "put the program in its place")
}

// place puts the program where it is found. One that has other files beside it is a link into a folder of its version.
func (p Package) place(files, folder string) (string, error) {
	path := filepath.Join(folder, p.Program)
	if p.Path == p.Program {
		return path, os.Rename(filepath.Join(files, p.Path), path)
	}
	own := p.Program + "-" + p.Version
	link := files + ".link"
	return path, errors.Join(os.RemoveAll(filepath.Join(folder, own)), os.Rename(files, filepath.Join(folder, own)),
		os.Symlink(filepath.Join(own, p.Path), link), os.Rename(link, path))
}

// unpack writes the files of an archive that has the checksum.
func (p Package) unpack(archive, to string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	hash := sha512.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(hash.Sum(nil)); got != p.Sum {
		return fmt.Errorf("its checksum is %s and not %s, so it is not what was published: does npm use a mirror that changes it?", got, p.Sum)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			if executable(filepath.Join(to, p.Path)) != nil {
				return errors.New("it holds no program")
			}
			return nil
		}
		if err != nil {
			return err
		}
		name, inside := strings.CutPrefix(entry.Name, p.Folder+"/")
		if !inside || entry.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || p.Path == p.Program && name != p.Path {
			continue
		}
		if err := write(filepath.Join(to, name), entries, entry.FileInfo().Mode()); err != nil {
			return err
		}
	}
}

// write writes a file that every user may read, and run if its owner may.
func write(path string, from io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), openMode); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, openMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from) // the checksum says how large it is
	return errors.Join(err, out.Chmod(0o644|mode.Perm()&0o111), out.Close())
}

// NoPackage says that no package is known for this machine.
func NoPackage(product, otherwise string) error {
	return Refuse(ops.FailureNotFound, "claudeops knows no package of %s for %s on %s: install it yourself, %s",
		product, runtime.GOOS, runtime.GOARCH, otherwise)
}

// Versions asks a program for its version and remembers the answer until the program is replaced.
type Versions struct {
	Bin       string                               // the program, as it is configured
	Args      []string                             // before --version
	Shape     *regexp.Regexp                       // of the answer; its first group is the version
	Wait      time.Duration                        // for the answer
	Needed    bool                                 // a program that does not tell is asked again
	Variables func(home string) (adding Variables) // for a home that is empty

	mu   sync.Mutex
	last Version
}

// Version is what a program said of itself.
type Version struct {
	Text string // empty when it does not tell
	Why  string // it does not run

	of string // the identity of the program
}

// AtLeast reports whether a version is known, and not older than another.
func (v Version) AtLeast(oldest string) bool { return v.Text != "" && !OlderVersion(v.Text, oldest) }

// Of is the version of a program. Env is the environment a session would have.
func (v *Versions) Of(ctx context.Context, program Program, env []string) Version {
	identity := program.Identity()
	v.mu.Lock()
	last := v.last
	v.mu.Unlock()
	if last.of == identity {
		return last
	}
	asked := Version{of: identity}
	answer := v.ask(ctx, program, env)
	if died := answer.Died(); died != "" {
		asked.Why = v.Bin + " does not run: " + died
	} else if match := v.Shape.FindStringSubmatch(answer.Line); match != nil {
		asked.Text = match[1]
	}
	// What a program that failed lacks may be installed without changing it.
	if ctx.Err() == nil && (asked.Text != "" || answer.ExitCode <= 0 && !v.Needed) {
		v.mu.Lock()
		v.last = asked
		v.mu.Unlock()
	}
	return asked
}

func (v *Versions) ask(ctx context.Context, program Program, env []string) Answer {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return Answer{ExitCode: -1, Error: err.Error()}
	}
	defer func() { _ = os.RemoveAll(home) }()
	ctx, cancel := context.WithTimeout(ctx, v.Wait)
	defer cancel()
	program.Key = "version-" + uuid.NewString()
	spec := ops.SessionSpec{Env: env, Session: ops.Session{Key: program.Key}}
	program.Argv, program.Dir = slices.Concat(program.Argv, v.Args, []string{"--version"}), home
	program.Env = Environment(spec, Folders{Home: home, State: home}, v.Variables(home))
	return Ask(ctx, program)
}

// OlderVersion reports whether version a comes before b.
func OlderVersion(a, b string) bool {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(left), len(right)) {
		x, _ := strconv.Atoi(left[i])
		y, _ := strconv.Atoi(right[i])
		if d := cmp.Compare(x, y); d != 0 {
			return d < 0
		}
	}
	return false
}
