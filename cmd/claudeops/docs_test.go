package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/loopback"
	"claudeops/test/messagesapi"
	"claudeops/test/readme"
	"claudeops/test/realcli"
)

const (
	// patience is how long one block may take, on a busy machine.
	patience = 4 * time.Minute
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
		_, r.ports[port], _ = strings.Cut(loopback.FreeAddress(t), ":")
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

// tutorialStory is what Claude says where a document lets it work: all is well, unless Tier 1 is told about the shop of the tutorial. Then
// Tier 2 asks for the action that repairs it.
func tutorialStory(r messagesapi.Request) messagesapi.Answer {
	used := messagesapi.Usage{Input: 2000, Output: 100}
	switch n := tierOf(r); {
	case n == 1 && !strings.Contains(r.Prompt(), "shop"):
		return messagesapi.Structured("toolu_well", says(1, ops.OutcomeHealthy)).Took(used)
	case n == 1:
		return messagesapi.Structured("toolu_down", shopReport("escalate", "down", "its page has no greeting")).Took(used)
	case r.Turn() == 0:
		return messagesapi.Call("toolu_act", "mcp__claudeops__action_run",
			map[string]any{"service": "shop", "action": "restore", "why": "its page was overwritten"}).Took(used)
	}
	return messagesapi.Structured("toolu_done", shopReport("resolved", "healthy", "")).Took(used)
}

// shopReport is an outcome about the shop.
func shopReport(kind, status, problem string) (out any) {
	checks := fmt.Sprintf(`[{"service": "shop", "check_type": "http", "status": %q, "error": %q}]`, status, problem)
	text := fmt.Sprintf(`{"schema_version": 1, "outcome": %q, "summary": "The shop is %s.", "check_results": %s,
		"actions": [], "events": [], "memories": []`, kind, status, checks)
	if kind == "escalate" {
		text += fmt.Sprintf(`, "handoff": {"schema_version": 1, "recommended_tier": 2, "reason": "its page was overwritten",
			"services_affected": ["shop"], "check_results": %s, "cooldown_state": {}}`, checks)
	}
	if err := json.Unmarshal([]byte(text+"}"), &out); err != nil {
		panic(err)
	}
	return out
}

// block is a fenced block of a document. Its info string says what the test does with it; CONTRIBUTING.md describes the marks.
type block struct {
	line  int
	lang  string
	marks map[string]string
	text  string
}

func (b block) has(mark string) bool {
	_, ok := b.marks[mark]
	return ok
}

// blockMarks are the marks that a block of each language may have. The first of them that a block has says what is done with it.
var blockMarks = map[string][]string{
	"sh":   {"run", "file", "not-run", "container", "package"},
	"yaml": {"config", "file", "not-run"},
	"json": {"post", "file", "not-run"},
	"ini":  {"unit", "not-run"},
	"text": {"output"},
}

// Blocks of sh with the mark container are run by test/imagetest, those with package by the test of the packages: both are quick starts.

// runWords are further words that change how a block is run.
var runWords = []string{"exit", "eventually", "background"}

// documents are the files whose blocks are run.
func documents(t testing.TB) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []string
	for _, folder := range []string{"docs", filepath.Join("docs", "howto")} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		must(t, err)
		out = append(out, found...)
	}
	return append(out, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "examples", "README.md"),
		filepath.Join(root, "llms.txt"))
}

func readDocument(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// infoWord is a word of an info string: a name, NAME=VALUE or NAME="a longer value".
var infoWord = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)"|=(\S+))?`)

// listItem is the first line of a list item, whose further paragraphs are indented.
var listItem = regexp.MustCompile(`^([-*]|\d+\.) `)

// blocksOf reads the fenced blocks of a document, and tells what is wrong with them.
func blocksOf(text string) (out []block, wrong []string) {
	var open *block
	indent, blank, list := "", true, false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == "```":
			wrong = append(wrong, open.wrong()...)
			out, open = append(out, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(trimmed, "```"):
			indent, _, _ = strings.Cut(line, "`")
			open = newBlock(i+1, strings.TrimLeft(trimmed, "`"))
		case blank && !list && strings.HasPrefix(line, "    ") && trimmed != "":
			wrong = append(wrong, fmt.Sprintf("line %d: an indented block escapes the test; use a fence", i+1))
		}
		if open == nil && trimmed != "" && !strings.HasPrefix(line, " ") {
			list = listItem.MatchString(line)
		}
		blank = trimmed == ""
	}
	if open != nil {
		wrong = append(wrong, fmt.Sprintf("line %d: the block does not end", open.line))
	}
	return out, wrong
}

func newBlock(line int, info string) *block {
	lang, rest, _ := strings.Cut(strings.TrimSpace(info), " ")
	b := &block{line: line, lang: lang, marks: map[string]string{}}
	for _, m := range infoWord.FindAllStringSubmatch(rest, -1) {
		b.marks[m[1]] = m[2] + m[3]
	}
	return b
}

// wrong tells why a block would not be tested.
func (b block) wrong() (out []string) {
	say := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("line %d: ", b.line)+fmt.Sprintf(format, args...))
	}
	marks, ok := blockMarks[b.lang]
	if !ok {
		say("a block of %q: the test knows sh, yaml, json, ini and text", b.lang)
		return out
	}
	marked := false
	for mark, value := range b.marks {
		if (mark == "container" || mark == "package") && strings.Count(b.text, "\n") > readme.MaxLines {
			say("a quick start has at most %d lines", readme.MaxLines)
		}
		switch {
		case slices.Contains(marks, mark):
			marked = true
		case !slices.Contains(runWords, mark) || !b.has("run"):
			say("%q is not a mark for a block of %s", mark, b.lang)
		}
		if mark == "not-run" && len(value) < 5 {
			say(`give the reason: not-run="needs a key"`)
		}
	}
	if !marked && b.lang != "text" {
		say(`a block of %s needs one of the marks %s, or not-run="the reason"`, b.lang, strings.Join(marks, ", "))
	}
	if b.lang == "text" && !marked && regexp.MustCompile(`(?m)^\$? ?(claudeops|make|curl) `).MatchString(b.text) {
		say("commands in a block of text escape the test; make it a block of sh")
	}
	return out
}

// A block that nobody runs becomes false one day.
func TestDocuments_NoBlockEscapes(t *testing.T) {
	t.Parallel()
	for _, path := range documents(t) {
		if _, wrong := blocksOf(readDocument(t, path)); len(wrong) > 0 {
			t.Errorf("%s:\n  %s", path, strings.Join(wrong, "\n  "))
		}
	}
	for text, want := range map[string]string{
		"```sh\nls\n```\n":                     "needs one of the marks",
		"```\nls\n```\n":                       "the test knows",
		"```sh not-run\nls\n```\n":             "give the reason",
		"```yaml run\na: b\n```\n":             "is not a mark",
		"```text\nclaudeops status\n```\n":     "escape the test",
		"Type:\n\n    claudeops status\n":      "indented block",
		"```sh run\nls\n":                      "does not end",
		"```sh run background=yes colour\n```": "is not a mark",
		"```sh container\na\nb\nc\nd\ne\n```":  "at most 4 lines",
	} {
		if _, wrong := blocksOf(text); !strings.Contains(strings.Join(wrong, "\n"), want) {
			t.Errorf("%q: %q, want %q", text, wrong, want)
		}
	}
}

// A quick start of each kind is in the README, and nowhere else: the tests that run them look there.
func TestDocuments_QuickStartsAreInTheReadme(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"container", "package"} {
		readme.QuickStart(t, filepath.Join("..", ".."), mark)
		for _, path := range documents(t) {
			blocks, _ := blocksOf(readDocument(t, path))
			for _, b := range blocks {
				if b.has(mark) && filepath.Base(path) != "README.md" {
					t.Errorf("%s: line %d: no test runs a block with the mark %s here", path, b.line, mark)
				}
			}
		}
	}
}

// link is a link in a document to another place of this repository.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`)

// Links lead to files and headings that exist.
func TestDocuments_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, path := range append(documents(t), filepath.Join("..", "..", "CHANGELOG.md")) {
		for _, m := range link.FindAllStringSubmatch(readDocument(t, path), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			at := path
			if file != "" {
				at = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s links to %s: %v", path, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readDocument(t, at)), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", path, target, at)
			}
		}
	}
}

// anchors are the names that GitHub gives the headings of a page.
func anchors(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(m[1], ""))
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

var (
	// span is a command in running text.
	span = regexp.MustCompile("`claudeops ([^`]+)`")
	// fenced is a block, which another test runs.
	fenced = regexp.MustCompile("(?s)\n *```.*?\n *```")
	plain  = regexp.MustCompile(`^[a-z][a-z-]*$`)
	option = regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z-]*)`)
	usage  = regexp.MustCompile(`(?m)^  claudeops(.*)$`)
)

// Commands that the text of a document names exist, with the flags that it gives them.
func TestDocuments_CommandsInTextExist(t *testing.T) {
	t.Parallel()
	named := map[string]string{}
	for _, path := range documents(t) {
		for _, m := range span.FindAllStringSubmatch(fenced.ReplaceAllString(readDocument(t, path), ""), -1) {
			if m[1] != "…" && m[1] != "session-keeper" { // any command, and the name of a process
				named[m[1]] = path
			}
		}
	}
	if len(named) < 30 {
		t.Errorf("only %d commands are named", len(named))
	}
	var helps sync.Map // by command, so that each is asked once
	for text, path := range named {
		for _, problem := range unknownIn(t, &helps, text) {
			t.Errorf("%s names `claudeops %s`: %s", path, text, problem)
		}
	}
	for wrong, want := range map[string]string{"dbb check": "dbb", "db chekc": "chekc", "once --dryrun": "--dryrun", "cycles list --since": ""} {
		if got := strings.Join(unknownIn(t, &helps, wrong), "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("claudeops %s: %q, want %q", wrong, got, want)
		}
	}
}

// unknownIn tells which words of a command the program does not know.
func unknownIn(t *testing.T, helps *sync.Map, text string) (out []string) {
	t.Helper()
	before, _, _ := strings.Cut(text, " -- ")
	var words []string
	for _, w := range strings.Fields(before) {
		if !plain.MatchString(w) {
			break
		}
		words = append(words, w)
	}
	help := ""
	for n := len(words); n > 0 && help == ""; n-- {
		help = helpOf(t, helps, words[:n])
	}
	m := usage.FindStringSubmatch(help)
	if m == nil {
		return []string{strings.Join(words, " ") + " is not a command"}
	}
	path := strings.Fields(m[1])
	for i, w := range words {
		if i >= len(path) || path[i] != w {
			if i == 0 || strings.Contains(help, "[command]") {
				out = append(out, w+" is not a command")
			}
			break // an argument
		}
	}
	for _, o := range option.FindAllStringSubmatch(before, -1) {
		if !slices.Contains(strings.FieldsFunc(help, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }), o[1]) {
			out = append(out, o[1]+" is not a flag")
		}
	}
	return out
}

// helpOf is the help of a command, empty where there is none.
func helpOf(t *testing.T, helps *sync.Map, words []string) string {
	t.Helper()
	key := strings.Join(words, " ")
	if text, ok := helps.Load(key); ok {
		return text.(string)
	}
	c := exec.Command(program, append(slices.Clone(words), "--help")...)
	c.Env = []string{quickExit, "HOME=" + t.TempDir()}
	text, err := c.Output()
	if err != nil {
		text = nil
	}
	helps.Store(key, string(text))
	return string(text)
}

// brokenService is a scenario in which the service web is down until one of the handlers writes the word up into its state file. The
// others find it down and hand it to the next tier.
func brokenService(state string, repairs ops.Tier) string {
	var b strings.Builder
	b.WriteString("name: web is down\ntiers:\n")
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		fmt.Fprintf(&b, "  %d:\n    cost_usd: 0.01\n    steps:\n", int(tier))
		fmt.Fprintf(&b, "      - when: {bash: 'grep -qx up %s', exit: 0}\n        steps: [{finish: {result: web is up., outcome: %s}}]\n",
			state, reported("healthy", "web is up", "healthy", ""))
		if tier == repairs {
			fmt.Fprintf(&b, "      - bash: 'echo up > %s'\n", state)
			fmt.Fprintf(&b, "    result: I repaired web.\n    outcome: %s\n", reported("resolved", "web is up again", "healthy", ""))
			continue
		}
		handoff := fmt.Sprintf(`{schema_version: 1, recommended_tier: %d, reason: web is down, services_affected: [web], `+
			`check_results: [{service: web, check_type: service, status: down, error: its state is down}], cooldown_state: {}, `+
			`investigation_findings: its state file says down, remediation_attempted: nothing is permitted here}`, int(tier)+1)
		fmt.Fprintf(&b, "    result: web is down.\n    outcome: %s\n", reported("escalate", "web is down", "down", handoff))
	}
	b.WriteString("roles:\n  manager: {outcome: {target: database, reason: its state is data}}\n")
	return b.String()
}

func reported(kind, summary, health, handoff string) string {
	problem := ""
	if health == "down" {
		problem = "its state is down"
	}
	out := fmt.Sprintf(`{schema_version: 1, outcome: %s, summary: %s, check_results: [{service: web, check_type: service, status: %s, error: %q}], `+
		`actions: [], events: [], memories: []`, kind, summary, health, problem)
	if handoff != "" {
		out += ", handoff: " + handoff
	}
	return out + "}"
}

// Each example runs as it is: only the programs of the agents are replaced by the scripted one, and the address of the people by ours.
func TestExamples_RunToTheEndThatTheyPromise(t *testing.T) {
	for name, want := range map[string]struct {
		repairs  ops.Tier
		first    int // how the first run exits
		notified bool
		answer   []string // what a person does then
		handlers string
	}{
		"default.yaml":             {repairs: 3, handlers: "tier1 tier2 tier3"},
		"manager.yaml":             {repairs: 3, handlers: "watcher dispatcher database surgeon"},
		"approval.yaml":            {repairs: 3, first: 6, notified: true, answer: []string{"approvals", "approve", "1"}, handlers: "watcher fixer surgeon"},
		"cross-family-review.yaml": {first: 6, notified: true, answer: []string{"incidents", "resolve", "1"}, handlers: "watcher reviewer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told atomic.Int64
			people := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
			defer people.Close()
			b, config := exampleBox(t, name, want.repairs, people.URL+"/notify/x")
			once := []string{"once", "--config", config, "--agent-scenario", filepath.Join(b.state, "scenario.yaml")}
			if r := b.run(once...); r.code != want.first {
				t.Fatalf("once exits %d, want %d\n%s%s", r.code, want.first, r.stdout, r.stderr)
			}
			if (told.Load() > 0) != want.notified {
				t.Errorf("people were told %d times", told.Load())
			}
			if want.answer != nil {
				if r := b.run(append(want.answer, "--config", config)...); r.code != 0 {
					t.Fatalf("%q exits %d: %s", want.answer, r.code, r.stderr)
				}
				b.run(once...) // finishes the open cycle
			}
			b.read(func(s *store.Store) {
				c, err := s.Journal.Load(t.Context(), 1)
				must(t, err)
				var handlers []string
				for _, x := range c.Journal.Sessions {
					handlers = append(handlers, x.Handler)
				}
				if got := strings.Join(handlers, " "); got != want.handlers || c.Cycle.Status != ops.CycleResolved {
					t.Errorf("%s worked and the cycle is %s (%s), want %s", got, c.Cycle.Status, c.Cycle.Reason, want.handlers)
				}
			})
			b.replay()
		})
	}
}

// exampleBox is a box for an example, with a service that is down and the scenario that goes with it.
func exampleBox(t *testing.T, name string, repairs ops.Tier, people string) (b *box, config string) {
	t.Helper()
	config, err := filepath.Abs(filepath.Join("../../examples", name))
	must(t, err)
	repos := t.TempDir()
	state := filepath.Join(repos, "infra", "web.state")
	b = &box{t: t, state: privateFolder(t)}
	b.env = []string{
		quickExit, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "CLAUDEOPS_STATE_DIR=" + b.state,
		"CLAUDEOPS_REPOS_DIR=" + repos, "CLAUDEOPS_CLAUDE_BIN=scripted", "CLAUDEOPS_CODEX_BIN=scripted", "CLAUDEOPS_APPRISE_API=" + people,
	}
	b.furnish()
	must(t, os.MkdirAll(filepath.Join(repos, "infra", ".git"), 0o755))
	for path, text := range map[string]string{state: "down\n", filepath.Join(b.state, "scenario.yaml"): brokenService(state, repairs)} {
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return b, config
}
