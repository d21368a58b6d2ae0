package broker_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
	"claudeops/test/dockertest"
)

// fills writes a file of the given size in kB inside a container.
func fills(t *testing.T, d *dockertest.Daemon, container, path string, kB int) {
	t.Helper()
	d.Docker(t, "exec", container, "sh", "-c", fmt.Sprintf("mkdir -p %q && head -c %d /dev/zero > %q", filepath.Dir(path), kB<<10, path))
}

func layerOf(t *testing.T, d *dockertest.Daemon, name string) broker.Layer {
	t.Helper()
	found, err := broker.Layers(t.Context(), d.Socket, broker.Service{Name: name})
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	return found[0]
}

func TestWhatALayerHolds(t *testing.T) {
	d := dockertest.Shared(t)
	id := d.Container(t, "layered", "-v", "layered-data:/data", "--tmpfs", "/scratch")
	t.Cleanup(func() { _, _ = d.Run(t, d.Socket, "docker", "volume", "rm", "-f", "layered-data") })
	for _, path := range []string{"/data/x", "/scratch/x", "/tmp/x", "/run/x", "/var/cache/x", "/var/log/x", "/root/.cache/x", "/app/cache/x", "/app/x.log"} {
		fills(t, d, "layered", path, 3<<10)
	}
	fills(t, d, "layered", "/srv/small", 1000)
	if l := layerOf(t, d, "layered"); l.Holds() || l.Unseen != "" {
		t.Errorf("what can be lost counts: %s", l)
	}
	fills(t, d, "layered", "/srv/app/my db.sqlite", 2<<10)
	l := layerOf(t, d, "layered")
	if !l.Holds() || l.Unseen != "" || !slices.Equal(l.Files, []string{`"/srv/app/my db.sqlite" (2.0 MB)`, `"/srv/small" (1000 kB)`}) {
		t.Errorf("it is %+v", l)
	}
	if l.ID != id || l.Loss() != "loses the data outside the volumes of container "+id[:12] || !strings.Contains(l.String(), "layered") {
		t.Errorf("it is %+v: %s", l, l)
	}
	d.Docker(t, "stop", "-t", "0", "layered")
	if again := layerOf(t, d, "layered"); again.String() != l.String() {
		t.Errorf("stopped it is %s", again)
	}
	d.Docker(t, "start", "layered")
	d.Docker(t, "exec", "layered", "sh", "-c", "mkdir /many && cd /many && i=0; while [ $i -lt 5100 ]; do echo > $i; i=$((i+1)); done")
	if l := layerOf(t, d, "layered"); !l.Holds() || l.Unseen == "" {
		t.Errorf("more than is looked at: %s", l)
	}
}

// An engine that does not answer in time has shown nothing, so nothing is taken down.
func TestALayerThatIsNotSeenIsKept(t *testing.T) {
	socket, _ := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("size") != "" {
			<-r.Context().Done()
			return
		}
		web(w, r)
	})
	found, err := broker.Layers(t.Context(), socket, broker.Service{Name: "web"})
	if err != nil || len(found) != 1 || !found[0].Holds() || !strings.Contains(found[0].String(), "longer than 2s") {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestDataOutsideOfVolumesIsNotReplaced(t *testing.T) {
	d := dockertest.Shared(t)
	for i, compose := range composers(t, d) {
		t.Run(strings.Join(compose, " "), func(t *testing.T) {
			name := fmt.Sprintf("keeps%d", i)
			file := project(t, d, compose, name, "    environment: {MODE: a}\n")
			web := d.Docker(t, "ps", "-q", "--no-trunc", "--filter", "label=com.docker.compose.project="+name, "--filter", "label=com.docker.compose.service=web")
			fills(t, d, web, "/var/lib/app/data.db", 2<<10)
			book := &ledger{}
			socket := open(t, setup{engine: d.Socket, tier: ops.Tier3, services: named("web"), ledger: book})
			before := started(t, d, web)
			up := append(slices.Clone(compose[1:]), "-f", file, "up", "-d", "--no-deps", "--force-recreate", "web")
			for _, argv := range [][]string{append([]string{compose[0]}, up...), {"docker", "stop", web}, {"docker", "rm", "-f", web}} {
				out, err := d.Run(t, socket, argv[0], argv[1:]...)
				if err == nil || !strings.Contains(out, "/var/lib/app/data.db") || !strings.Contains(out, "loses the data outside the volumes of container "+web[:12]) {
					t.Errorf("%q: %v: %s", argv, err, out)
				}
				if after := started(t, d, web); after != before {
					t.Errorf("%q: %s became %s", argv, before, after)
				}
			}
			all := d.Docker(t, "ps", "-aq", "--no-trunc", "--filter", "label=com.docker.compose.project="+name, "--filter", "label=com.docker.compose.service=web")
			if all != web {
				t.Errorf("a replacement was left: %s", all)
			}
			if out, err := d.Run(t, socket, "docker", "restart", "-t", "0", web); err != nil {
				t.Errorf("a restart loses nothing: %v: %s", err, out)
			}
			d.Docker(t, "exec", web, "sh", "-c", "rm /var/lib/app/data.db")
			if out, err := d.Run(t, socket, compose[0], up...); err != nil {
				t.Errorf("without the data: %v: %s", err, out)
			}
		})
	}
}
