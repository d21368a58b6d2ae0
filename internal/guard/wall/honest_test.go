//go:build linux

package wall_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// honestFiles are what the honest commands of the corpus look at, so that they have something to say.
func honestFiles() map[string]string {
	const compose = "services:\n  jellyfin:\n    image: jellyfin/jellyfin:10.10\n    ports: [\"8096:8096\"]\n  web:\n    image: nginx:1.27\n"
	const server = "server {\n  listen 80;\n  server_name example.org;\n  location / {\n    proxy_pass http://127.0.0.1:8096;\n    proxy_read_timeout 60s;\n  }\n}\n"
	access := `192.0.2.7 - - [14/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 502 157 "-" "curl/8"` + "\n"
	return map[string]string{
		"/etc/os-release": "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n", "/etc/debian_version": "12.9\n",
		"/etc/hosts": "127.0.0.1 localhost db redis ie01\n", "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
		"/etc/docker/daemon.json": "{\"log-driver\": \"json-file\"}\n", "/etc/apt/sources.list.d/docker.list": "deb https://download.docker.com/linux/debian bookworm stable\n",
		"/etc/systemd/system/backup.timer": "[Timer]\nOnCalendar=daily\n", "/etc/nginx/nginx.conf": "include conf.d/*.conf;\n",
		"/etc/nginx/conf.d/app.conf": server, "/etc/nginx/sites-enabled/default": server, "/etc/nginx/sites-available/default": server,
		"/var/log/nginx/access.log": strings.Repeat(access, 5), "/var/log/nginx/error.log": "2026/03/14 10:00:00 [error] 7#7: *1 upstream timed out (110: Connection timed out)\n",
		"/var/log/nginx/error.log.1": "2026/03/13 10:00:00 [error] 7#7: *1 connect() failed (111: Connection refused)\n",
		"/var/log/app-1.log":         "started\n", "/var/log/app-2.log": "ready\n", "/repos/infra/compose.yaml": compose,
		"/repos/infra/compose.prod.yaml":  strings.ReplaceAll(compose, "1.27", "1.26"),
		"/repos/infra/media/compose.yaml": compose, "/repos/infra/services.json": `{"services":[{"name":"web","port":80},{"name":"db","port":5432}]}` + "\n",
		"/repos/infra/report-1.csv": "day,errors\n1,7\n", "/repos/infra/playbooks/web.yml": "- hosts: web\n", "/repos/infra/k8s/web.yaml": "kind: Deployment\n",
		"/var/lib/dpkg/status": "Package: nginx\nStatus: install ok installed\nVersion: 1.22.1-9\nArchitecture: amd64\nMaintainer: x\nDescription: web server\n\n" +
			"Package: docker-ce\nStatus: install ok installed\nVersion: 27.0\nArchitecture: amd64\nMaintainer: x\nDescription: engine\n\n",
	}
}

// seed is where the repository with a history is kept; it is copied each time.
const seed = "/seed"

// furnishHonestly writes the files, and the repository whose history honest commands read.
func furnishHonestly() error {
	for path, text := range honestFiles() {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil { //nolint:gosec // a stage
			return err
		}
	}
	if _, err := os.Stat(seed); err != nil {
		for _, script := range []string{
			"git init -q -b main && git add -A && git commit -q -m 'Add the media server'", "echo note >> README.md && git commit -q -a -m 'Add a note'",
			"git update-ref refs/remotes/origin/main HEAD && echo more >> README.md",
		} {
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.Dir = "/repos/infra"
			cmd.Env = []string{
				"PATH=/usr/bin:/bin", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", script, err, out)
			}
		}
		if err := os.Mkdir(seed, 0o700); err != nil {
			return err
		}
		return copyTree("/repos/infra/.git", seed+"/.git")
	}
	if err := os.WriteFile("/repos/infra/README.md", []byte(canaryText+"note\nmore\n"), 0o644); err != nil { //nolint:gosec // a stage
		return err
	}
	return copyTree(seed+"/.git", "/repos/infra/.git")
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		at := to + strings.TrimPrefix(path, from)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(at, 0o755) //nolint:gosec // a stage
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, raw, 0o644) //nolint:gosec // a stage
	})
}

// serveHonestly starts what honest commands ask over loopback: HTTP on the usual ports, and Redis.
func serveHonestly() error {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Sat, 14 Mar 2026 10:00:00 GMT")
		fmt.Fprintf(w, `{"path":%q,"status":"ok","data":{"result":[]}}`+"\n", r.URL.Path)
	})
	for _, port := range []string{"80", "3000", "8080", "8096", "8500", "8989", "9090", "9093", "9100", "9200"} {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		go func() { _ = (&http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}).Serve(l) }()
	}
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	cmd := exec.Command(redis, "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		if conn, err := net.Dial("tcp", "127.0.0.1:6379"); err == nil {
			return conn.Close()
		}
	}
}
