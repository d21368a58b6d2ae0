package process

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLimitsAreWrittenWhereTheControllersAre uses plain files: not every machine that tests has the controllers.
func TestLimitsAreWrittenWhereTheControllersAre(t *testing.T) {
	parent := t.TempDir()
	group := &Cgroup{Path: filepath.Join(parent, "claudeops-x")}
	if err := os.Mkdir(group.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	limits := Limits{Processes: 100, Memory: 1 << 30}
	if group.Limit(limits) {
		t.Error("without the controllers there are no limits")
	}
	for _, name := range []string{"pids.max", "memory.max"} {
		if err := os.WriteFile(filepath.Join(group.Path, name), []byte("max"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !group.Limit(limits) {
		t.Error("the limits were not set")
	}
	for name, want := range map[string]string{"pids.max": "100", "memory.max": "1073741824"} {
		if raw, err := os.ReadFile(filepath.Join(group.Path, name)); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", name, raw, err)
		}
	}
}

func TestWhatAProcessStartedBeforeItWasMovedIsMovedToo(t *testing.T) {
	if !CgroupAvailable() {
		t.Skip("control groups need root or delegation")
	}
	g := MakeCgroup("moved-with-children")
	if g == nil {
		t.Fatal("there is no group")
	}
	t.Cleanup(g.Remove)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "setsid sh -c 'echo up; sleep 60' & sleep 60")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Kill(); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if n := len(g.members()); n < 3 {
		t.Errorf("%d processes are in the group", n)
	}
}
