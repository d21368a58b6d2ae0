package imagetest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"claudeops"
	"claudeops/test/dockertest"
	"claudeops/test/realcli"
)

// limit bounds one command, on a busy machine.
const limit = 8 * time.Minute

// project is a compose project: a folder with the compose file, a configuration and .env.
type project struct {
	t   *testing.T
	d   *dockertest.Daemon
	dir string
	env []string
}

func newProject(t *testing.T, name, image string) *project {
	t.Helper()
	p := &project{t: t, d: images(t), dir: t.TempDir()}
	p.env = []string{"COMPOSE_PROJECT_NAME=" + name, "CLAUDEOPS_IMAGE=" + image}
	write(t, filepath.Join(p.dir, "compose.yaml"), claudeops.Compose)
	write(t, filepath.Join(p.dir, "claudeops.yaml"), p.d.Docker(t, "run", "--rm", image, "init", "-")+"\n")
	write(t, filepath.Join(p.dir, ".env"), "CLAUDEOPS_API_TOKEN="+token+"\n")
	t.Cleanup(func() { _, _ = p.try("docker", "compose", "down", "--volumes", "--timeout", "20") })
	return p
}

// try runs a program in the folder of the project.
func (p *project) try(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := p.d.Command(ctx, p.d.Socket, program, args...)
	c.Dir, c.Env = p.dir, append(c.Env, p.env...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

func (p *project) run(program string, args ...string) string {
	p.t.Helper()
	out, err := p.try(program, args...)
	if err != nil {
		log, _ := p.try("docker", "compose", "logs", "--no-color", "--tail", "40")
		p.t.Fatalf("%s %s: %v: %s\n%s", program, strings.Join(args, " "), err, out, log)
	}
	return out
}

// inside runs a program in the container.
func (p *project) inside(args ...string) string {
	p.t.Helper()
	return p.run("docker", append([]string{"compose", "exec", "-T", "claudeops"}, args...)...)
}

// get asks the published port.
func get(t *testing.T, d *dockertest.Daemon, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := d.Pages(t).Do(r)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

// answers checks that pages and API are there, and nobody gets in without the token.
func answers(t *testing.T, d *dockertest.Daemon, token string) {
	t.Helper()
	for _, tt := range []struct {
		path, token string
		code        int
		body        string
	}{
		{"/readyz", "", http.StatusOK, ""},
		{"/", "", http.StatusSeeOther, ""},
		{"/login", "", http.StatusOK, "Claude Ops"},
		{"/", token, http.StatusOK, "Claude Ops"},
		{"/api/v1/stats", token, http.StatusOK, "{"},
		{"/api/v1/stats", "", http.StatusUnauthorized, ""},
	} {
		if code, body := get(t, d, "http://127.0.0.1:8080"+tt.path, tt.token); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s answers %d: %.200s", tt.path, code, body)
		}
	}
}

func contains(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: no %q in\n%s", what, w, text)
		}
	}
}

func TestSlimIsHealthyAndAnswers(t *testing.T) {
	p := newProject(t, "slim", slimImage)
	p.run("docker", "compose", "up", "-d", "--wait")
	answers(t, p.d, token)
	if out, err := p.try("docker", "compose", "exec", "-T", "claudeops", "/bin/sh", "-c", "true"); err == nil {
		t.Errorf("it has a shell: %s", out)
	}
	if out, err := p.try("docker", "compose", "exec", "-T", "claudeops", "claudeops", "demo", "--once"); err == nil || !strings.Contains(out, "use the full container image") {
		t.Errorf("the demo: %v: %s", err, out)
	}
	out, _ := p.try("docker", "compose", "exec", "-T", "claudeops", "claudeops", "doctor") // no agent is a problem
	contains(t, "doctor", out, `"claude" is not installed`, "/var/lib/claudeops is writable")
	// Certificates are there, and the program is its only user's.
	contains(t, "its configuration", p.d.Docker(t, "inspect", "--format", "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.SecurityOpt}}", "slim-claudeops-1"),
		"65532:65532 true [no-new-privileges:true]")
	files := p.d.Docker(t, "export", "-o", filepath.Join(p.dir, "slim.tar"), "slim-claudeops-1")
	list, err := exec.Command("tar", "-tf", filepath.Join(p.dir, "slim.tar")).Output()
	if err != nil {
		t.Fatal(err, files)
	}
	contains(t, "its files", string(list), "etc/ssl/certs/ca-certificates.crt", "usr/bin/claudeops")
}

// The whole life of the full image, as compose.yaml runs it.
func TestFullPlaysTheDemoAndKeepsItsState(t *testing.T) {
	p := newProject(t, "full", fullImage)
	p.run("docker", "compose", "up", "-d", "--wait")
	answers(t, p.d, token)
	contains(t, "the programs", p.inside("sh", "-c", "claude --version; docker --version; docker compose version; git --version; bwrap --version; apprise --version"),
		realcli.Version+" (Claude Code)", "Docker version", "Docker Compose version", "git version", "bubblewrap", "Apprise")
	contains(t, "the demo", p.inside("env", "CLAUDEOPS_DEMO_PACE=0", "claudeops", "demo", "--once"), "Tier 3", "resolved", "confirmed by our own probes")
	contains(t, "the limits", p.inside("sh", "-c", "touch /usr/x; grep NoNewPrivs /proc/1/status; id claudeops-agent"), "Read-only file system", "NoNewPrivs:\t1", "uid=")

	p.inside("claudeops", "silences", "add", "--service", "jellyfin", "--for", "2h", "--reason", "new disk")
	before := p.d.Docker(t, "inspect", "--format", "{{.Id}}", "full-claudeops-1")
	p.run("docker", "compose", "up", "-d", "--force-recreate", "--wait")
	if after := p.d.Docker(t, "inspect", "--format", "{{.Id}}", "full-claudeops-1"); after == before {
		t.Error("the container is the same")
	}
	contains(t, "the silences of the new container", p.inside("claudeops", "silences", "list"), "jellyfin", "new disk")
	contains(t, "the database", p.inside("claudeops", "db", "check"), "")
}

// Doctor says which walls a container lacks and how to get them, and that is true.
func TestDoctorTellsWhichWallsAContainerHas(t *testing.T) {
	d := images(t)
	doctor := func(options ...string) string {
		args := append([]string{"run", "--rm", "--read-only", "--tmpfs", "/tmp", "--security-opt", "no-new-privileges:true", "-e", "CLAUDEOPS_API_TOKEN=" + token}, options...)
		return d.Docker(t, append(args, fullImage, "doctor", "--verbose")...)
	}
	out := doctor("--cap-add", "SYS_PTRACE")
	contains(t, "without namespaces", out, "wall uid           on", "wall landlock      on", "wall bubblewrap    missing: not required", "--security-opt seccomp=unconfined",
		"This is usual in a container", "wall floor         on", "wall network       on: ports, not addresses", "walls              on for all sessions")
	out = doctor("--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined")
	contains(t, "with namespaces", out, "wall bubblewrap    on")
	// The sandbox cannot use another user without the capabilities, and does not say that it can.
	out, err := d.Run(t, d.Socket, "docker", "run", "--rm", "--cap-drop", "ALL", "-e", "CLAUDEOPS_API_TOKEN="+token, fullImage, "doctor")
	if err == nil || !strings.Contains(out, "CAP_SETUID") {
		t.Errorf("without capabilities: %v\n%s", err, out)
	}
	// Where agents have the supervisor's user, bubblewrap is missed.
	out, _ = d.Run(t, d.Socket, "docker", "run", "--rm", "--user", "65532", "--tmpfs", "/var/lib/claudeops:uid=65532,mode=700", "-e", "CLAUDEOPS_API_TOKEN="+token, fullImage, "doctor", "--verbose")
	contains(t, "as one user", out, "!  wall bubblewrap    missing: a trial failed", "--security-opt seccomp=unconfined")
}

func TestComposeFileIsValidForBothVersionsOfCompose(t *testing.T) {
	p := newProject(t, "both", slimImage)
	out := p.run("docker", "compose", "--profile", "postgres", "config")
	contains(t, "docker compose", out, "image: postgres:17", "no-new-privileges:true", "read_only: true")
	p.run("docker-compose", "up", "-d")
	for end := time.Now().Add(limit); ; {
		if out := p.run("docker-compose", "ps"); strings.Contains(out, "(healthy)") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("not healthy: %s", out)
		}
		<-time.After(100 * time.Millisecond)
	}
	p.run("docker-compose", "up", "-d", "--force-recreate")
	p.run("docker-compose", "down", "--volumes")
	// Without a token it says what to do.
	must(t, os.Remove(filepath.Join(p.dir, ".env")))
	if out, err := p.try("docker", "compose", "config"); err == nil || !strings.Contains(out, "put a token of at least 20 characters into .env") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheImageHasTheClaudeCodeThatTheTestsUse(t *testing.T) {
	if got := argument(t, "CLAUDE_CODE_VERSION"); got != realcli.Version {
		t.Errorf("the image gets Claude Code %s, the tests use %s", got, realcli.Version)
	}
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, filepath.Join(root, "go.mod")))
	if got := argument(t, "GO"); m == nil || got != "golang:"+m[1] {
		t.Errorf("the image is built with %s, go.mod says %v", got, m)
	}
}

// attempts is an agent that tries what the wall of ports must refuse, and what it must not.
const attempts = `#!/usr/bin/env python3
import json, socket, subprocess, sys
sys.stdin.read()
def tried(name, attempt):
    try:
        attempt()
        print(name, "is open")
    except OSError as e:
        print(name, "is refused:", e.strerror)
tried("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
tried("udp6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
tried("evil", lambda: socket.create_connection(("127.0.0.1", 8098), 5))
tried("direct", lambda: socket.create_connection(("127.0.0.1", 8099), 5))
print("service says", subprocess.run(["curl", "-s", "http://127.0.0.1:8099/hello"], capture_output=True, text=True).stdout)
print("proxy says", subprocess.run(["curl", "-s", "http://127.0.0.1:8098/hello"], capture_output=True, text=True).stdout)
print(json.dumps({"schema_version": 1, "outcome": "healthy", "summary": "All is well.", "actions": [], "events": [], "memories": [],
    "check_results": [{"service": "web", "check_type": "http", "status": "healthy", "error": ""}]}))
`

// The image has no namespaces, so a session in it has the second-best wall: ports, not addresses.
func TestASessionInTheImageHasPortsOnly(t *testing.T) {
	d := images(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent.py"), attempts)
	write(t, filepath.Join(dir, "claudeops.yaml"), `handlers:
  - {id: look, tier: 1, family: local, agent: command, model: m, command: [python3, /etc/claudeops/agent.py]}
services:
  - {name: web, probes: [{type: http, url: "http://127.0.0.1:8099/"}]}
`)
	for _, name := range []string{"served", "evil"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil { //nolint:gosec // the container reads it as another user
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "hello"), "hello from "+name+"\n")
	}
	out, err := d.Run(t, d.Socket, "docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--tmpfs", "/var/lib/claudeops:mode=711", "--security-opt",
		"no-new-privileges:true", "--cap-add", "SYS_PTRACE", "-e", "CLAUDEOPS_API_TOKEN="+token, "-v", dir+":/etc/claudeops:ro", "--entrypoint", "sh", fullImage, "-c", `
python3 -m http.server -d /etc/claudeops/served -b 127.0.0.1 8099 2>/dev/null &
python3 -m http.server -d /etc/claudeops/evil -b 127.0.0.1 8098 2>/dev/null &
until curl -sf http://127.0.0.1:8099/hello && curl -sf http://127.0.0.1:8098/hello; do :; done >/dev/null
claudeops once; claudeops sessions logs 1; claudeops sessions show 1; claudeops events; claudeops doctor --verbose`)
	contains(t, "the session", out, "udp is refused", "udp6 is refused", "raw is refused", "ping is refused", "packet is refused", "netlink is refused",
		"evil is refused: Permission denied", "direct is refused: Permission denied", "service says hello from served", "proxy says claudeops refused GET",
		"network (ports, not addresses)", "wall network       on: ports, not addresses")
	if strings.Contains(out, "is open") || strings.Contains(out, "hello from evil") {
		t.Errorf("something is open (%v):\n%s", err, out)
	}
}
