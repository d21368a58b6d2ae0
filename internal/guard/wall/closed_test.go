//go:build linux

package wall_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// closable is a place with files of all kinds in a folder that the operator opens.
func closable(t *testing.T, mounts bool) (p *place, open string) {
	t.Helper()
	p = newPlace(t)
	if p.config.Confine = true; !mounts {
		p.config.Bwrap = "/nowhere/bwrap"
	}
	open = p.root + "/open"
	for path, mode := range map[string]os.FileMode{
		"plain": 0o644, "secret": 0o600, "group": 0o640, "named": 0o600, "shut/plain": 0o644, "shut/named": 0o600, "hidden": 0o644, "sub/plain": 0o644, "sub/secret": 0o600,
	} {
		at := open + "/" + path
		must(t, os.MkdirAll(at[:strings.LastIndexByte(at, '/')], 0o755)) //nolint:gosec // open on purpose
		must(t, os.WriteFile(at, []byte("content of "+path+"\n"), mode))
		must(t, os.Chmod(at, mode))
	}
	must(t, os.MkdirAll(open+"/private/deep", 0o755)) //nolint:gosec // closed below
	must(t, os.WriteFile(open+"/private/deep/plain", []byte("content of private\n"), 0o644))
	for _, dir := range []string{"/private", "/shut"} {
		must(t, os.Chmod(open+dir, 0o700))
	}
	p.config.Readable, p.config.Hidden = []string{open, open + "/named", open + "/shut/named"}, []string{open + "/hidden"}
	return p, open
}

func TestWhatOthersMayNotReadIsClosedAndSaysSo(t *testing.T) {
	for name, mounts := range map[string]bool{"Landlock": false, "mounts": true} {
		t.Run(name, func(t *testing.T) {
			p, open := closable(t, mounts)
			for _, path := range []string{"plain", "named", "shut/named", "sub/plain"} {
				if out, code := p.run(ops.Tier1, "cat "+open+"/"+path); code != 0 || out != "content of "+path+"\n" {
					t.Errorf("%s: exit %d, %q", path, code, out)
				}
			}
			for _, path := range []string{"secret", "group", "hidden", "sub/secret", "shut/plain", "private/deep/plain"} {
				out, code := p.run(ops.Tier1, "cat "+open+"/"+path)
				covered := mounts && !strings.HasPrefix(path, "private")
				if strings.Contains(out, "content") || covered && out != confine.Notice || !covered && code == 0 {
					t.Errorf("%s: exit %d, %q", path, code, out)
				}
			}
			for _, script := range []string{"cp " + open + "/secret $S/work/x; cat $S/work/x", "echo x > " + open + "/secret", "mv " + open + "/secret " + open + "/plain"} {
				if out, _ := p.run(ops.Tier3, script); strings.Contains(out, "content") {
					t.Errorf("%s: %q", script, out)
				}
			}
			if out, _ := p.run(ops.Tier1, "cat "+open+"/private/*"); mounts && out != confine.Notice {
				t.Errorf("a hidden folder says %q", out)
			}
			// All sessions see the folder that covers it.
			if out, code := p.run(ops.Tier3, "cd "+open+"/private && { echo x > new || rm -f * || chmod 777 . * || mv * moved; }"); mounts && code == 0 {
				t.Errorf("a hidden folder was changed: %q", out)
			}
			for _, path := range []string{"secret", "group", "shut/named"} {
				if raw, err := os.ReadFile(open + "/" + path); err != nil || string(raw) != "content of "+path+"\n" {
					t.Errorf("%s is now %q, %v", path, raw, err)
				}
			}
		})
	}
}

// A cover goes when the host replaces the file below it, as useradd does with /etc/shadow. What the session may read does not.
func TestAReplacedFileStaysClosed(t *testing.T) {
	for name, mounts := range map[string]bool{"Landlock": false, "mounts": true} {
		t.Run(name, func(t *testing.T) {
			p, open := closable(t, mounts)
			hidden := p.root + "/open/plain"
			p.config.Hidden = []string{hidden}
			cmd := p.command(ops.Tier1, fmt.Sprintf(`echo ready; while [ ! -e $R/go ]; do sleep 0.05; done
				cat %[1]s/secret %[2]s %[1]s/sub/secret > $S/work/got 2>&1; cat %[1]s/sub/plain >> $S/work/got`, open, hidden))
			started(t, cmd)
			for _, path := range []string{open + "/secret", hidden, open + "/sub/secret"} {
				must(t, os.WriteFile(path+"+", []byte("replaced\n"), 0o600))
				must(t, os.Rename(path+"+", path))
			}
			must(t, os.WriteFile(p.repos+"/go", nil, 0o600))
			_ = cmd.Wait()
			raw, err := os.ReadFile(p.state + "/work/got")
			if err != nil || strings.Contains(string(raw), "replaced") || !strings.Contains(string(raw), "content of sub/plain") {
				t.Errorf("it read %q, %v", raw, err)
			}
		})
	}
}

// The walls hold, and are tried, while files beside them are replaced all the time: by one that is not there when the session starts.
func TestWallsHoldWhileFilesAreReplaced(t *testing.T) {
	times := 40
	if testing.Short() {
		times = 10
	}
	for name, mounts := range map[string]bool{"Landlock": false, "mounts": true} {
		t.Run(name, func(t *testing.T) {
			p, open := closable(t, mounts)
			replacing := exec.Command("/bin/sh", "-c", `umask 077; while :; do echo replaced > new; mv new secret; done`)
			replacing.Dir = open
			must(t, replacing.Start())
			defer func() { _ = replacing.Process.Kill(); _ = replacing.Wait() }()
			for range times {
				if out, _ := p.run(ops.Tier1, "cat "+open+"/secret"); strings.Contains(out, "replaced") {
					t.Fatalf("it read %q", out)
				}
			}
		})
	}
}

func TestOnlyWhatIsThereAndNotOpenIsUnseen(t *testing.T) {
	for name, mounts := range map[string]bool{"Landlock": false, "mounts": true} {
		p, open := closable(t, mounts)
		unseen := wall.New(p.config).Unseen(ops.Tier1, wall.Session{ID: "1"})
		for path, want := range map[string]bool{
			open + "/plain": false, open + "/named": false, open + "/shut/named": false, open + "/secret": true, open + "/private/deep/plain": true,
			open + "/nothing": false, "/etc/passwd": false, "/etc/shadow": true, "/root": true, "/": false, "/tmp": false, p.state + "/lock": false,
			"/proc/1/environ": false,
		} {
			if unseen(path) != want && !strings.HasPrefix(path, "/tmp/") {
				t.Errorf("%s: %s: got %v", name, path, !want)
			}
		}
	}
}

func TestASessionSaysThatItsWallsWereSetUpTwice(t *testing.T) {
	p := newPlace(t)
	text, mine, err := wall.New(p.config).Verdict(ops.Tier1, confine.Report+confine.Hold+confine.Again+"the walls do not hold: /etc/shadow can be read")
	if err != nil || !mine || !strings.Contains(text, "set up twice") || !strings.Contains(text, "/etc/shadow can be read") {
		t.Errorf("%q, %v, %v", text, mine, err)
	}
}
