package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAWorldCannotChangeThisMachine holds what makes it safe to run the wrecker: it finds a whole machine, and nothing that it does
// reaches this one.
func TestAWorldCannotChangeThisMachine(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces need root")
	}
	root, err := moduleRoot()
	succeeds(t, err)
	outside := filepath.Join(t.TempDir(), "kept")
	succeeds(t, os.WriteFile(outside, []byte("kept"), 0o600))
	const script = `
try() { "$@" 2>/dev/null && echo "did: $*"; }
try rm -rf /usr/local/bin /var/lib/dpkg
try test -e /usr/bin/env
try test -e "$OUTSIDE"
try touch "$ROOT/written"
try sh -c 'echo 1 >/proc/sys/vm/overcommit_memory'
try sh -c 'ls /dev/vd* /dev/sd* /dev/nvme*'
try touch /sys/written
try test "$(ls -A /tmp /home /root /srv | grep -v -e : -e '^$' | grep -v program | wc -l)" = 0
try test "$(ip -o link | wc -l)" = 1
try test "forward $(cat /proc/sys/net/ipv4/ip_forward)" = "forward 1"
true`
	before, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	succeeds(t, err)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/bash\n"+script), 0o700); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
		filepath.Join(root, "test/incidents/world.sh"), t.TempDir(), root, filepath.Join(root, "test/incidents/faults"), program)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "OUTSIDE=" + outside, "ROOT=" + root}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "did: rm -rf /usr/local/bin /var/lib/dpkg\ndid: test -e /usr/bin/env\ndid: test 1 = 1\ndid: test forward 1 = forward 1\n"
	if got := string(out); strings.ReplaceAll(got, "did: test 0 = 0\n", "") != want {
		t.Errorf("in the world:\n%s", got)
	}
	if after, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err != nil || string(after) != string(before) {
		t.Errorf("the machine forwards: %s before, %s after, %v", before, after, err)
	}
	for _, path := range []string{"/usr/local/bin", "/var/lib/dpkg", outside} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the machine was changed: %v", err)
		}
	}
}
