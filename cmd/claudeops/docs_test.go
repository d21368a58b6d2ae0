package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

const (
	// patience is how long one block may take, on a busy machine.
	patience = 90 * time.Second
	// webPort is the port of the pages in all documents.
	webPort = "8080"
)

// Every command and every configuration in the documents works as it is written, in the order in which a reader meets them.
func TestDocuments_RunAsTheyAreWritten(t *testing.T) {
	for _, path := range documents(t) {
		text := readDocument(t, path)
		blocks, wrong := blocksOf(text)
		if len(wrong) > 0 {
			continue // the other test tells
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(path, "../../"), ".md"), func(t *testing.T) {
			t.Parallel()
			readAlong(t, text, blocks)
		})
	}
}

// readAlong does what a document says.
func readAlong(t *testing.T, text string, blocks []block) {
	r := newReader(t, blocks)
	if m := setup.FindStringSubmatch(text); m != nil {
		r.begin()
		r.do(block{text: m[1], lang: "sh", marks: map[string]string{"run": ""}}, "")
	}
	for i, b := range blocks {
		var shown string
		if i+1 < len(blocks) && blocks[i+1].has("output") {
			shown = blocks[i+1].text
		}
		b.text = r.translate(b.text)
		r.line = b.line
		r.parse(b)
		if name := b.marks["file"]; name != "" {
			r.save(name, b.text)
		}
		switch {
		case b.has("run"):
			r.begin()
			r.do(b, r.translate(shown))
		case b.has("config"):
			r.checkConfig(b)
		case b.has("post"):
			r.post(b)
		case b.has("unit"):
			r.checkUnit(b)
		}
		if t.Failed() {
			return // what follows builds on it
		}
	}
}

// setup is a comment with commands that a document assumes to have been run. Readers of the page do not see it.
var setup = regexp.MustCompile(`(?s)<!-- The test runs this first:\n(.*?)-->`)

// reader is a person at a terminal, with one shell for a whole document.
type reader struct {
	t     *testing.T
	dir   string // the working folder
	home  string
	env   []string
	ports map[string]string
	line  int
	count int

	stdin io.WriteCloser
	ended *bufio.Reader // the shell writes a line at the end of each block
}

func newReader(t *testing.T, blocks []block) *reader {
	t.Helper()
	r := &reader{t: t, dir: privateFolder(t), home: privateFolder(t), ports: map[string]string{webPort: ""}}
	for _, b := range blocks {
		for _, m := range regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindAllStringSubmatch(b.text, -1) {
			r.ports[m[1]] = ""
		}
	}
	for port := range r.ports {
		_, r.ports[port], _ = strings.Cut(freeAddress(t), ":")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	// The working folder looks like a checkout in which the program has been built.
	bin := filepath.Join(r.dir, "bin")
	must(t, os.Mkdir(bin, 0o755))
	// Go need not be in this PATH: nothing is run.
	r.save("bin/make", "#!/bin/sh\nexec /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin make -n -C "+root+" GO=true \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "make"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"bin/claudeops": program, "bin/claude": realcli.Path(t), "examples": filepath.Join(root, "examples"),
	} {
		must(t, os.Symlink(target, filepath.Join(r.dir, name)))
	}
	// Nothing of this machine's user is known, no agent waits between its steps, and Claude talks to a scripted API.
	for _, pair := range realcli.Env(t, messagesapi.New(t, tutorialStory).URL()) {
		if name, _, _ := strings.Cut(pair, "="); !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR"}, name) {
			r.env = append(r.env, pair)
		}
	}
	r.env = append(r.env, quickExit, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+r.home, "TMPDIR="+os.TempDir(), "CLAUDEOPS_DEMO_PACE=0", "PYTHONUNBUFFERED=1",
		"CLAUDEOPS_LISTEN="+r.translate("127.0.0.1:"+webPort))
	return r
}

// translate replaces the ports of a document by free ones, the address at which people reach the pages by the one of this test, the key by
// one of this reader, and the paths of secrets by a file that exists.
func (r *reader) translate(text string) string {
	for port, free := range r.ports {
		text = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, free)
	}
	text = strings.ReplaceAll(text, "https://ops.example.org", "http://127.0.0.1:"+r.ports[webPort])
	text = strings.ReplaceAll(text, "sk-ant-your-key", "sk-ant-of-this-reader")
	return secretFile.ReplaceAllStringFunc(text, func(path string) string {
		name := filepath.Join(r.home, filepath.Base(path))
		must(r.t, os.WriteFile(name, []byte("ntfy://ntfy.example.org/secret-of-a-test\n"), 0o600))
		return name
	})
}

// secretFile is a file that every reader has somewhere else.
var secretFile = regexp.MustCompile(`/(?:run/secrets|etc/claudeops)/[\w.-]+`)

func (r *reader) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("the block of line "+strconv.Itoa(r.line)+": "+format, args...)
}

func (r *reader) save(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // as an editor writes it
		r.t.Fatal(err)
	}
}

// parse reads a block by the rules of its language, also one that is not run.
func (r *reader) parse(b block) {
	var v any
	var err error
	switch b.lang {
	case "yaml":
		err = yaml.Unmarshal([]byte(b.text), &v)
	case "json":
		err = json.Unmarshal([]byte(b.text), &v)
	}
	if err != nil {
		r.errorf("%v", err)
	}
}

// begin starts the shell of the document.
func (r *reader) begin() {
	r.t.Helper()
	if r.stdin != nil {
		return
	}
	read, write, err := os.Pipe()
	must(r.t, err)
	c := exec.Command("bash", "--norc", "--noprofile")
	c.Dir, c.Env, c.ExtraFiles = r.dir, r.env, []*os.File{write}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if r.stdin, err = c.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	must(r.t, c.Start())
	_ = write.Close()
	r.ended = bufio.NewReader(read)
	r.t.Cleanup(func() {
		group := -c.Process.Pid // everything that the document started
		_ = syscall.Kill(group, syscall.SIGTERM)
		for end := time.Now().Add(20 * time.Second); syscall.Kill(group, 0) == nil && time.Now().Before(end); pause(20 * time.Millisecond) {
			_ = r.stdin.Close()
			if time.Until(end) < 2*time.Second {
				_ = syscall.Kill(group, syscall.SIGKILL)
			}
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(c.Process.Pid, &status, syscall.WNOHANG, nil)
		}
		_ = read.Close()
	})
	// It notes each command that fails; sourcing a block is not one of them.
	r.tell(`trap 'code=$?; case $BASH_COMMAND in ". "*) ;; *) echo "exit $code: $BASH_COMMAND" >&4 ;; esac' ERR`)
	r.tell(`ready() { until claudeops healthcheck >/dev/null 2>&1; do sleep 0.1; done; }`)
}

func (r *reader) tell(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.stdin, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// do runs the commands of a block and compares what they print with what the document shows.
func (r *reader) do(b block, shown string) {
	r.t.Helper()
	r.count++
	script := filepath.Join(r.home, fmt.Sprintf("block-%d", r.count))
	out, failed := script+".out", script+".failed"
	for name, text := range map[string]string{script: b.text, out: "", failed: ""} {
		must(r.t, os.WriteFile(name, []byte(text), 0o600))
	}
	line := fmt.Sprintf(". %s </dev/null >%s 2>&1 4>%s", script, out, failed)
	end := time.Now().Add(patience)
	if b.has("background") {
		r.tell("{ " + line + "; } &")
		for !shows(readDocument(r.t, out), shown) {
			if time.Now().After(end) {
				r.errorf("it does not show what the document shows:\n%s", readDocument(r.t, out))
				return
			}
			pause(50 * time.Millisecond)
		}
		return
	}
	for {
		r.tell(line + "; echo done >&3")
		if !r.wait(end) {
			r.errorf("it does not end:\n%s\n%s", b.text, readDocument(r.t, out))
			return
		}
		got, problems := readDocument(r.t, out), failures(readDocument(r.t, failed), b.marks["exit"])
		if problems == "" && shows(got, shown) {
			return
		}
		if !b.has("eventually") || time.Now().After(end) {
			r.errorf("%s%s\nprinted\n%s\nthe document shows\n%s", b.text, problems, got, shown)
			return
		}
		pause(100 * time.Millisecond)
	}
}

// wait waits until the shell has ended a block.
func (r *reader) wait(end time.Time) bool {
	done := make(chan error, 1)
	go func() {
		_, err := r.ended.ReadString('\n')
		done <- err
	}()
	select {
	case err := <-done:
		return err == nil
	case <-time.After(time.Until(end)):
		return false
	}
}

// failures tells which commands failed. expected is the exit code of the one that must fail.
func failures(noted, expected string) string {
	var out []string
	for line := range strings.Lines(noted) {
		if expected == "" || !strings.HasPrefix(line, "exit "+expected+":") {
			out = append(out, line)
		}
	}
	if expected != "" && noted == "" {
		out = append(out, "nothing failed; the document says exit "+expected)
	}
	return strings.Join(out, "")
}

// figure is what differs from run to run: numbers, durations, sizes, times and hashes.
var figure = regexp.MustCompile(`(?:\d+(?:[.,:]\d+)*(?:ms|µs|s|m|h|d)?)+`)

// shows reports whether every line of a pattern is in the output, in that order. Figures may differ, blanks are alike, and … matches any text.
func shows(output, pattern string) bool {
	plain := func(line string) string { return strings.Join(strings.Fields(figure.ReplaceAllString(line, "#")), " ") }
	lines := strings.Split(output, "\n")
	for want := range strings.Lines(pattern) {
		want = plain(want)
		if strings.Trim(want, "… ") == "" {
			continue
		}
		parts := strings.Split(want, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re := regexp.MustCompile(strings.Join(parts, ".*"))
		for len(lines) > 0 && !re.MatchString(plain(lines[0])) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return false
		}
		lines = lines[1:]
	}
	return true
}

// checkConfig passes a configuration to the program.
func (r *reader) checkConfig(b block) {
	r.t.Helper()
	name := b.marks["file"]
	if name == "" {
		r.count++
		name = fmt.Sprintf("config-%d.yaml", r.count)
		r.save(name, b.text)
	}
	c := exec.Command(program, "config", "check", "--config", name)
	c.Dir, c.Env = r.dir, r.env
	if out, err := c.CombinedOutput(); err != nil {
		r.errorf("config check: %v\n%s", err, out)
	}
}

// post sends JSON to the daemon that runs beside the document.
func (r *reader) post(b block) {
	r.t.Helper()
	token, err := os.ReadFile(filepath.Join(r.home, ".local/state/claudeops/api-token"))
	must(r.t, err)
	q, err := http.NewRequest(http.MethodPost, r.translate("http://127.0.0.1:"+webPort+b.marks["post"]), strings.NewReader(b.text))
	must(r.t, err)
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	must(r.t, err)
	defer func() { _ = answer.Body.Close() }()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode/100 != 2 {
		r.errorf("the server answers %s: %s", answer.Status, body)
	}
}

// checkUnit checks that a systemd unit can be enabled and that its command exists.
func (r *reader) checkUnit(b block) {
	r.t.Helper()
	for _, want := range []string{"[Unit]\n", "[Service]\n", "[Install]\n", "WantedBy=multi-user.target\n"} {
		if !strings.Contains(b.text, want) {
			r.errorf("the unit has no %s", want)
		}
	}
	m := regexp.MustCompile(`(?m)^ExecStart=\S*claudeops (.*)$`).FindStringSubmatch(b.text)
	if m == nil {
		r.errorf("the unit starts no claudeops")
		return
	}
	if out, err := exec.Command(program, append(strings.Fields(m[1]), "--help")...).CombinedOutput(); err != nil {
		r.errorf("claudeops %s: %v\n%s", m[1], err, out)
	}
}
