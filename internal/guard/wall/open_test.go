//go:build linux

package wall_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/guard/wall/confine"
)

// Reading is a list of what is open: with mounts of its own a session does not even see the rest, without them it cannot open it.
func TestASessionReadsOnlyWhatIsOpen(t *testing.T) {
	corpus := ""
	add := func(id, command string) {
		corpus += fmt.Sprintf("{\"id\":%q,\"tier\":3,\"command\":%q}\n", id, command)
	}
	for _, path := range []string{
		"/etc/hosts", "/etc/passwd", "/var/log/syslog", "/proc/loadavg", "/repos/infra/README.md", "/data/open/file",
		"/run/web.pid", "/state/cooldown.json", "/usr/bin/env", "/boot/vmlinuz",
	} {
		add("open "+path, "cat "+path+" > /dev/null")
	}
	for _, path := range []string{
		"/root/.bashrc", "/home/alice/notes", "/var/backups/dump", "/run/user/1000/file", "/run/secrets/db", "/volumes/pg/PG_VERSION", "/srv/data/file",
		"/opt/app/run", "/mnt/disk/file", "/tmp/x", "/var/lib/app/data", "/state/claudeops.db", "/state/settings.yaml", "/dev/shm/theirs",
		"/state/env/other/agent/config/note", "/etc/shadow", "/etc/letsencrypt/live/site/privkey.pem", "/run/docker.sock", "/data/open/app.sock",
		"/data/open/.env", "/data/open/deep/er/key", "/etc/app/token", "/opt/app/lib/key",
	} {
		add("closed "+path, "grep -v '^"+strings.TrimSpace(confine.Notice)+"$' "+path)
		if !strings.HasPrefix(path, "/etc/") && !strings.HasPrefix(path, "/data/") && path != "/opt/app/lib/key" {
			add("absent "+path, "test -e "+path)
		}
	}
	for _, path := range []string{"/run/docker.sock", "/state/control.sock", "/var/lib/app/app.sock", "/data/open/app.sock"} {
		add("closed socket "+path, "/harness dial "+path)
	}
	add("shared memory", "echo mine > /dev/shm/mine")
	add("segments", "ipcmk -M 64 && ipcs -m | grep -c 0x")
	must(t, os.WriteFile(filepath.Join("testdata", "open.jsonl"), []byte(corpus), 0o600))
	t.Cleanup(func() { _ = os.Remove(filepath.Join("testdata", "open.jsonl")) })
	for _, uid := range []int{0, 1000} {
		for _, what := range []string{"hostile", "hostile+mounts"} {
			t.Run(fmt.Sprintf("%s as %d", what, uid), func(t *testing.T) {
				mounts := what != "hostile"
				deeds := throwAway(t, what, 3, uid, "open.jsonl")
				for _, d := range deeds {
					kind, _, _ := strings.Cut(d.ID, " ")
					want := map[string]bool{"open": true, "closed": false, "absent": !mounts, "shared": mounts, "segments": mounts}[kind]
					if (d.Exit == 0) != want || len(d.Harm) > 0 {
						t.Errorf("%s: exit %d, harm %v: %s", d.ID, d.Exit, d.Harm, d.Output)
					}
				}
				if len(deeds) == 0 {
					t.Error("nothing was tried")
				}
			})
		}
	}
}
