package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// probesGatus lets Gatus watch the services that the daemon has watched. It keeps its results in SQLite, as the daemon does.
func (b *bench) probesGatus(program string, played *services, length time.Duration) ([]figure, error) {
	l := must((&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"))
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	check(l.Close())
	configuration := filepath.Join(b.dir, "gatus.yaml")
	check(os.WriteFile(configuration, []byte(gatusYAML(port, filepath.Join(b.dir, "gatus.db"), played.urls)), 0o600))
	c := exec.Command(program) //nolint:gosec,noctx // it was named to be measured
	c.Dir = b.dir
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.dir, "GATUS_CONFIG_PATH=" + configuration, "GATUS_LOG_LEVEL=ERROR"}
	var said strings.Builder
	c.Stderr, c.Stdout = &said, &said
	check(c.Start())
	d := &daemon{cmd: c}
	defer d.stop()
	u, err := watchProcess(c.Process.Pid, played, length)
	if err != nil {
		return nil, fmt.Errorf("measure Gatus: %w\n%s", err, said.String())
	}
	return u.figures("Gatus on the same targets", "", ""), nil
}

func gatusYAML(port, database string, urls []string) string {
	var y strings.Builder
	fmt.Fprintf(&y, "web: {address: 127.0.0.1, port: %s}\nstorage: {type: sqlite, path: %q}\n", port, database)
	// As many at once as the daemon; the default of 3 is for probes of a single site.
	fmt.Fprintf(&y, "concurrency: 64\nendpoints:\n")
	for i, url := range urls {
		fmt.Fprintf(&y, "  - {name: service-%d, url: %q, interval: %s, client: {insecure: true, timeout: 10s}, conditions: ['[STATUS] == 200', '[BODY].status == ok']}\n",
			i, url, probeInterval)
	}
	return y.String()
}
