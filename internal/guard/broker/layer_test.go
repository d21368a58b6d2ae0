package broker_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/guard/broker"
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
