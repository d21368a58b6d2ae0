//go:build linux

package wall_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
)

const tryingAgain = "a mount disappeared meanwhile; trying again"

func TestWhatIsGoneWhenTheSandboxIsSetUpIsLeftOut(t *testing.T) {
	p := newPlace(t)
	p.config.Confine = true
	file, folder, fixed, named := p.root+"/open/secret", p.root+"/open/secrets", p.repos+"/app/fixed", p.root+"/named"
	p.config.Hidden, p.config.ReadOnly, p.config.Named = []string{file, folder, p.volume}, []string{fixed}, []string{named}
	p.config.Readable = []string{p.root + "/open"}
	for _, c := range []struct {
		gone, says string
		code       int
	}{
		{file, tryingAgain + "\nworks\n", 7},
		{folder, tryingAgain + "\nworks\n", 7},
		{fixed, "works\n", 7},
		{named, "works\n", 7},
		{p.state + "/work", "No such file or directory\n", 1},
	} {
		for _, dir := range []string{folder, named} {
			must(t, os.MkdirAll(dir, 0o700))
		}
		for _, path := range []string{file, fixed} {
			must(t, os.WriteFile(path, nil, 0o600))
		}
		s := wall.New(p.config)
		must(t, s.Check(ops.Tier3))
		must(t, s.Prepare(ops.Tier3))
		w, err := s.Wrap(ops.Tier3, "/bin/sh", []string{"sh", "-c", `test ! -e "$V/data" && touch "$R/app/new" && echo works; exit 7`},
			[]string{"PATH=/usr/bin:/bin", "V=" + p.volume, "R=" + p.repos}, p.state+"/work")
		must(t, err)
		must(t, os.RemoveAll(c.gone))
		if out, code := runCommand(t, w); code != c.code || !strings.HasSuffix(out, c.says) {
			t.Errorf("%s is gone: exit %d, %q, want %d, %q", c.gone, code, out, c.code, c.says)
		}
	}
}

func TestASandboxIsTriedAgainWhenAMountOfTheMachineDisappears(t *testing.T) {
	const vanishing = `mount -t tmpfs none "$MOUNT"; umount "$MOUNT"; echo "bwrap: Unable to apply mount flags" >&2; exit 1`
	installed, err := exec.LookPath("bwrap")
	must(t, err)
	for _, c := range []struct {
		name, bwrap, program string
		tries, code          int
	}{
		{"once", `[ $(wc -l < "$TRIES") -gt 1 ] || { ` + vanishing + `; }`, "exit 7", 2, 7},
		{"each time", vanishing, "exit 7", 4, 1},
		{"none, and it fails", `exit 1`, "exit 7", 1, 1},
		{"one, and the agent fails", `mount -t tmpfs none "$MOUNT"; umount "$MOUNT"`, "exit 1", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, tries, bwrap := newPlace(t).mounts(), filepath.Join(t.TempDir(), "tries"), filepath.Join(t.TempDir(), "bwrap")
			must(t, os.WriteFile(bwrap, []byte("#!/bin/sh\necho >> \"$TRIES\"\n"+c.bwrap+"\nexec "+installed+" \"$@\"\n"), 0o755)) //nolint:gosec // a program
			s := wall.New(p.config)
			must(t, s.Prepare(ops.Tier1))
			w, err := s.Wrap(ops.Tier1, "/bin/sh", []string{"sh", "-c", c.program}, nil, p.state+"/work")
			must(t, err)
			for i, word := range w.Argv {
				if word == installed {
					w.Argv[i] = bwrap
					break
				}
			}
			// Mounts of its own, so that nothing of the machine counts.
			w.Path, w.Argv = "/usr/bin/unshare", append([]string{"unshare", "--mount", "--propagation", "private"}, w.Argv...)
			w.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TRIES=" + tries, "MOUNT=" + t.TempDir()}
			out, code := runCommand(t, w)
			raw, err := os.ReadFile(tries)
			must(t, err)
			if n := strings.Count(string(raw), "\n"); n != c.tries || code != c.code || strings.Contains(out, tryingAgain) != (c.tries > 1) {
				t.Errorf("%d tries and exit %d, want %d and %d: %s", n, code, c.tries, c.code, out)
			}
		})
	}
}
