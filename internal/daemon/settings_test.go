package daemon_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/config/edit"
	"claudeops/internal/daemon"
	"claudeops/internal/desk"
)

// settingsOf is the configuration file as the forms see it.
func settingsOf(t *testing.T, path string) desk.Settings {
	t.Helper()
	load := func(instead map[string][]byte) (*config.Config, error) {
		return config.Load(config.Input{
			ConfigPath: path, Dir: "/", Environ: []string{"HOME=/nowhere", "CLAUDEOPS_STATE_DIR=" + filepath.Dir(path)}, Instead: instead,
		})
	}
	c, err := load(nil)
	must(t, err)
	return daemon.ConfigFile(daemon.Options{
		Config: c, LoadConfig: load, Reload: func(context.Context) error { return nil }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
}

// A link is kept, and what it leads to is replaced, with its mode.
func TestTheFileBehindALinkIsReplaced(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	link, file := filepath.Join(dir, "claudeops.yaml"), filepath.Join(elsewhere, "own.yaml")
	must(t, os.WriteFile(file, []byte("trust: ask\n"), 0o604))
	must(t, os.Symlink(file, link))
	settings := settingsOf(t, link)
	now, err := settings.Read()
	if err != nil || now.Locked != "" || now.Edited {
		t.Fatalf("%+v: %v", now, err)
	}
	change := edit.Change{Environment: "default", Service: &edit.Service{Name: "web"}}
	result, err := edit.Apply(now.Content, change)
	must(t, err)
	draft := desk.Draft{ConfigFile: now, Result: result, Change: change}
	must(t, settings.Check(draft))
	undo, err := settings.Write(draft)
	must(t, err)
	info, err := os.Stat(file)
	if to, broken := os.Readlink(link); err != nil || broken != nil || to != file || info.Mode().Perm() != 0o604 {
		t.Errorf("the link leads to %s, the mode is %v: %v %v", to, info.Mode(), broken, err)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != string(result.Content) {
		t.Errorf("%s: %v", raw, err)
	}
	if _, err := settings.Write(draft); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("a second time: %v", err)
	}
	must(t, undo())
	raw, err := os.ReadFile(file)
	left, failed := os.ReadDir(elsewhere)
	if err != nil || failed != nil || string(raw) != "trust: ask\n" || len(left) != 1 {
		t.Errorf("%s beside %v: %v %v", raw, left, err, failed)
	}
}

// A packaged daemon may read its configuration, and not write it. Root may write everything, so another user looks.
func TestAFileOfAnotherUserIsLocked(t *testing.T) {
	if path := flag.Arg(0); path != "" { // the process of the other user
		now, err := settingsOf(t, path).Read()
		if err != nil || now.Locked == "" {
			t.Errorf("%+v: %v", now, err)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { //nolint:gosec // the other user passes through it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // so that it can be removed
	path := filepath.Join(dir, "claudeops.yaml")
	must(t, os.WriteFile(path, []byte("trust: ask\n"), 0o444))
	self, err := os.ReadFile(os.Args[0])
	must(t, err)
	program := filepath.Join(dir, "test")
	must(t, os.WriteFile(program, self, 0o755))
	must(t, os.Chmod(dir, 0o555))
	c := exec.CommandContext(t.Context(), program, "-test.run=^TestAFileOfAnotherUserIsLocked$", path)
	c.Env, c.Dir = []string{}, "/"
	if os.Geteuid() == 0 {
		const nobody = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWithoutAFileItSaysWhatToDo(t *testing.T) {
	c, err := config.Load(config.Input{Dir: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	must(t, err)
	o := daemon.Options{Config: c, LoadConfig: func(map[string][]byte) (*config.Config, error) { return c, nil }}
	if daemon.ConfigFile(o) != nil {
		t.Error("a daemon that cannot reload has forms")
	}
	o.Reload = func(context.Context) error { return nil }
	now, err := daemon.ConfigFile(o).Read()
	if err != nil || !strings.Contains(now.Locked, "claudeops init") {
		t.Errorf("%+v: %v", now, err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
