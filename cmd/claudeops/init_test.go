package main_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"claudeops"
	"claudeops/test/dockertest"
	"claudeops/test/realcli"
	"claudeops/test/realcodex"
)

// typist sits at a terminal at which the program runs.
type typist struct {
	t      *testing.T
	dir    string // where the program runs
	env    []string
	master *os.File
	cmd    *exec.Cmd
	mu     sync.Mutex
	shown  string
	read   int // up to where it has been read
}

// atTerminal starts the program at a new terminal of 100 columns.
func atTerminal(t *testing.T, dir string, env []string, args ...string) *typist {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}))
	p := &typist{t: t, dir: dir, env: env, master: master, cmd: exec.Command(program, args...)}
	p.cmd.Dir, p.cmd.Env = dir, env
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, p.cmd.Start())
	_ = slave.Close()
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			p.mu.Lock()
			p.shown += string(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = master.Close()
	})
	return p
}

// sees waits until the program shows a text that was not read before, and returns everything up to it.
func (p *typist) sees(text string) string {
	p.t.Helper()
	for end := time.Now().Add(patience); ; pause(20 * time.Millisecond) {
		p.mu.Lock()
		shown := p.shown[p.read:]
		if i := strings.Index(shown, text); i >= 0 {
			p.read += i + len(text)
			p.mu.Unlock()
			return shown[:i]
		}
		p.mu.Unlock()
		if time.Now().After(end) {
			p.t.Fatalf("no %q in\n%s", text, shown)
		}
	}
}

func (p *typist) types(text string) {
	p.t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the program and returns its exit code.
func (p *typist) ends() int {
	p.t.Helper()
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// whole is everything that was shown, once the program has ended.
func (p *typist) whole() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown
}

// furnished is a machine with a container, a unit, a listening program and two agent CLIs. It returns the environment of a person there.
func furnished(t *testing.T, container string, port int) []string {
	t.Helper()
	d := dockertest.Shared(t)
	d.Container(t, container)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\necho 'mailer.service loaded active running Mail'\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for name, target := range map[string]string{"claude": realcli.Path(t), "codex": realcodex.Path(t)} {
		must(t, os.Symlink(target, filepath.Join(bin, name)))
	}
	listen(t, port)
	return []string{quickExit, "PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "TMPDIR=" + shortTemp(t), "TERM=xterm", "DOCKER_HOST=unix://" + d.Socket}
}

// shopd is the name of the program that listens on a port: tests that run at once must not take another's.
func shopd(port int) string { return fmt.Sprintf("shopd%d", port) }

// listen starts a program that listens on a port that was not chosen by the kernel.
func listen(t *testing.T, port int) {
	t.Helper()
	raw, err := os.ReadFile("/bin/busybox")
	must(t, err)
	name := filepath.Join(t.TempDir(), shopd(port))
	if err := os.WriteFile(name, raw, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	pages := t.TempDir()
	must(t, os.WriteFile(filepath.Join(pages, "index.html"), []byte("open"), 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := &exec.Cmd{Path: name, Args: []string{"httpd", "-f", "-p", address, "-h", pages}}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(patience); time.Now().Before(end); pause(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return
		}
	}
	t.Fatalf("%s does not listen on %s: is the port taken?", name, address)
}

// numberOf is the number of a service in the list that was shown.
func numberOf(t *testing.T, list, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ +(\d+) +` + name + ` `).FindStringSubmatch(list)
	if m == nil {
		t.Fatalf("%s is not in\n%s", name, list)
	}
	return m[1]
}

func checked(t *testing.T, dir string, env []string) {
	t.Helper()
	c := exec.Command(program, "config", "check", "--config", "claudeops.yaml")
	c.Dir, c.Env = dir, env
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("config check: %v\n%s", err, out)
	}
}

func TestInit_AsksAtATerminalAndWritesWhatWasChosen(t *testing.T) {
	t.Parallel()
	env, dir := append(furnished(t, "init-grafana", 21000), "NO_COLOR=1"), t.TempDir()
	p := atTerminal(t, dir, env, "init")
	p.sees("containers of the Docker engine … ")
	p.sees("agent CLIs … 2")
	p.sees("Services on this machine:")
	list := p.sees("or all, or none [all]: ")
	contains(t, "the list", list, "container, image "+dockertest.Image, "systemd unit mailer.service", "program "+shopd(21000)+", port 21000")
	p.types("1-999\n")
	p.sees(`"1-999" is not in the list. Type numbers from 1 to `)
	p.types("one\n")
	p.sees(`"one" is not in the list.`)
	p.types(numberOf(t, list, shopd(21000)) + ", " + numberOf(t, list, "init-grafana") + " " + numberOf(t, list, "mailer") + "\n")
	p.sees("=shop [keep]: ")
	p.types(numberOf(t, list, shopd(21000)) + "=two words\n")
	p.sees("does not name a chosen service")
	p.types(numberOf(t, list, shopd(21000)) + "=init-grafana\n")
	p.sees("Two services would be called")
	p.types(numberOf(t, list, shopd(21000)) + "=shop\n")
	contains(t, "the agents", p.sees("Which one should run? [1]: "), "claude "+realcli.Version, "codex "+realcodex.Version)
	p.types("7\n")
	p.sees(`"7" is not in the list.`)
	p.types("codex\n")
	p.sees("A URL, or none [none]: ")
	p.types("my phone\n")
	p.sees("This is not a URL.")
	p.types("ntfy://ntfy.sh/secret-topic\n")
	p.sees("Otherwise they repair after your approval. [Y/n]: ")
	p.types("perhaps\n")
	p.sees("Answer y or n.")
	p.types("no\n")
	p.sees("wrote claudeops.yaml")
	contains(t, "the last words", p.sees("next: claudeops serve --config claudeops.yaml"), "missing: credentials: OPENAI_API_KEY is not set",
		"nothing was delivered yet. Send a test")
	if code := p.ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if strings.Contains(p.whole(), "\x1b") {
		t.Errorf("colors in spite of NO_COLOR:\n%q", p.whole())
	}
	text := readDocument(t, filepath.Join(dir, "claudeops.yaml"))
	contains(t, "the file", text, "# What is watched.", "- name: init-grafana\n    container: init-grafana\n", "- name: mailer\n    unit: mailer.service\n",
		"- name: shop\n    probes:\n      - type: http\n        url: http://127.0.0.1:21000/", "expect_status: [200]",
		"trust: ask", "agent: codex", "apprise_urls_file: claudeops.apprise", "# Time from one check to the next.")
	if n := strings.Count(text, "- name: "); n != 3 {
		t.Errorf("%d services in\n%s", n, text)
	}
	if info, err := os.Stat(filepath.Join(dir, "claudeops.apprise")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the targets: %v, %v", info, err)
	}
	if got := readDocument(t, filepath.Join(dir, "claudeops.apprise")); got != "ntfy://ntfy.sh/secret-topic\n" || strings.Contains(text, "secret-topic") {
		t.Errorf("the targets are %q", got)
	}
	checked(t, dir, env)
}

func TestInit_EmptyAnswersAreTheDefaults(t *testing.T) {
	t.Parallel()
	env, dir := furnished(t, "init-loki", 21001), t.TempDir()
	p := atTerminal(t, dir, env, "init", "--service", "systemd")
	for _, question := range []string{"or all, or none", "Other names for them?", "Which one should run?", "A URL, or none", "only look and propose at first?"} {
		p.sees(question)
		p.types("\n")
	}
	p.sees("wrote claudeops.service")
	if code := p.ends(); code != 0 {
		t.Errorf("exit %d: %s", code, p.whole())
	}
	contains(t, "what was shown", p.whole(), "\x1b[1m")
	text := readDocument(t, filepath.Join(dir, "claudeops.yaml"))
	contains(t, "the file", text, "dry_run: true", "container: init-loki", "unit: mailer.service", "#notify:", "1: {model: haiku}")
	checked(t, dir, env)
	unit := readDocument(t, filepath.Join(dir, "claudeops.service"))
	contains(t, "the unit", unit, "ExecStart="+program+" serve --config "+filepath.Join(dir, "claudeops.yaml")+"\n")
	want := strings.NewReplacer("@VERSION@", "dev", "/usr/bin/claudeops", program, "/etc/claudeops/claudeops.yaml", filepath.Join(dir, "claudeops.yaml")).Replace(claudeops.Unit)
	if unit != want {
		t.Errorf("the unit is not that of the packages:\n%s", unit)
	}
}

func TestInit_NothingIsWrittenIfItIsInterrupted(t *testing.T) {
	t.Parallel()
	env := furnished(t, "init-tempo", 21002)
	for name, keys := range map[string]string{"Ctrl-C": "\x03", "Ctrl-C in an answer": "1\x03", "Ctrl-D": "\x04"} {
		for _, question := range []string{"or all, or none [all]: ", "A URL, or none [none]: "} {
			dir := t.TempDir()
			p := atTerminal(t, dir, append(env, "NO_COLOR=1"), "init", "--service", "compose")
			p.sees("or all, or none [all]: ")
			if strings.HasPrefix(question, "A URL") {
				p.types("\n")
				p.sees("Other names for them?")
				p.types("\n")
				p.sees("Which one should run? [1]: ")
				p.types("\n")
				p.sees(question)
			}
			p.types(keys)
			p.sees("Nothing was written.")
			if code := p.ends(); code != 130 {
				t.Errorf("%s: exit %d: %s", name, code, p.whole())
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s left %v, %v", name, left, err)
			}
		}
	}
}

func TestInit_AsksNothingWhereNobodyAnswers(t *testing.T) {
	t.Parallel()
	env := []string{quickExit, "PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "TMPDIR=" + shortTemp(t)}
	starter, err := exec.Command(program, "init", "-").Output()
	must(t, err)
	// With --yes at a terminal.
	dir := t.TempDir()
	p := atTerminal(t, dir, env, "init", "--yes", "--service", "compose")
	if code := p.ends(); code != 0 || readDocument(t, filepath.Join(dir, "claudeops.yaml")) != string(starter) {
		t.Errorf("exit %d: %s", code, p.whole())
	}
	if got := readDocument(t, filepath.Join(dir, "compose.yaml")); got != claudeops.Compose {
		t.Errorf("the compose file is not that of the repository:\n%s", got)
	}
	if out, err := exec.Command(program, "init", "-", "--service", "compose").Output(); err != nil || string(out) != claudeops.Compose {
		t.Errorf("%v: %.200s", err, out)
	}
	// Without a terminal, and never over a file that exists.
	run := func(args ...string) (int, string) {
		c := exec.Command(program, append([]string{"init"}, args...)...)
		c.Dir, c.Env = dir, env
		out, _ := c.CombinedOutput()
		return c.ProcessState.ExitCode(), string(out)
	}
	must(t, os.WriteFile(filepath.Join(dir, "claudeops.yaml"), []byte("mine"), 0o600))
	if code, out := run("--service", "systemd"); code != 5 || !strings.Contains(out, "--force") {
		t.Errorf("exit %d: %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "claudeops.service")); err == nil {
		t.Error("the unit was written, the configuration was not")
	}
	if code, out := run("new.yaml", "--service", "compose"); code != 5 || !strings.Contains(out, "compose.yaml: it exists") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run("--force"); code != 0 || readDocument(t, filepath.Join(dir, "claudeops.yaml")) != string(starter) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run("missing/x.yaml", "--service", "systemd"); code != 1 || !strings.Contains(out, "there is no folder "+filepath.Join(dir, "missing")) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run("--service", "docker"); code != 2 || !strings.Contains(out, "systemd or compose") {
		t.Errorf("exit %d: %s", code, out)
	}
	// At a terminal the existing file is reported before the first question.
	p = atTerminal(t, dir, env, "init")
	if code := p.ends(); code != 5 || strings.Contains(p.whole(), "Looking at") {
		t.Errorf("exit %d: %s", code, p.whole())
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
