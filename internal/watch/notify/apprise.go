// Package notify delivers the notices of the outbox to people: to ntfy and Telegram itself, with buttons, and to everything else through
// Apprise. It also reads the answers that people give with the buttons.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// sendTimeout bounds one attempt.
const sendTimeout = 30 * time.Second

// ErrNoTarget means that no notification target is configured.
var ErrNoTarget = errors.New(ops.SkippedNoTarget)

// AppriseOptions say where notices go.
type AppriseOptions struct {
	Bin        string   // the apprise program; empty: apprise on the PATH
	URLs       []string // Apprise URLs; they hold secrets
	API        string   // address of an Apprise API server, used instead of the program when set
	Dir        string   // private folder for the configuration file of the program
	HTTPClient *http.Client
}

// Apprise sends notices with the apprise program or to an Apprise API server.
type Apprise struct {
	bin    string
	urls   []string
	api    string
	dir    string
	client *http.Client
	hide   *strings.Replacer
}

// New makes a sender. Without URLs and API every Send is ErrNoTarget.
func New(o AppriseOptions) *Apprise {
	a := &Apprise{bin: cmp.Or(o.Bin, "apprise"), api: o.API, dir: o.Dir, client: newClient(o.HTTPClient), hide: hider(o.URLs)}
	for _, u := range o.URLs {
		if u = strings.TrimSpace(u); u != "" {
			a.urls = append(a.urls, u)
		}
	}
	return a
}

// name is how people know the targets: their kinds and hosts, because every other part of a URL can be a secret.
func (a *Apprise) name() string {
	if a.api != "" {
		if api, err := apiAddress(a.api); err == nil {
			return "Apprise API at " + api.Hostname()
		}
		return "Apprise API"
	}
	var names []string
	for _, u := range a.urls {
		scheme, rest, _ := strings.Cut(u, "://")
		if host := hostOf(rest); host != "" {
			scheme += " at " + host
		}
		names = append(names, scheme)
	}
	return strings.Join(names, ", ")
}

// Send delivers one notice to every target, or says what to do about it.
func (a *Apprise) Send(ctx context.Context, n ops.Notice) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("apprise did not finish within %s", sendTimeout))
	defer cancel()
	m := messageOf(withAnswers(n))
	switch {
	case a.api != "":
		return a.post(ctx, m)
	case len(a.urls) > 0:
		return a.run(ctx, m)
	default:
		return ErrNoTarget
	}
}

// message is a notice as Apprise takes it.
type message struct {
	Title  string `json:"title"`
	Body   string `json:"body"`
	Type   string `json:"type"`
	Format string `json:"format"`
	URLs   string `json:"urls,omitempty"`
}

// longestTitle is how much of a title every notification service shows.
const longestTitle = 250

// messageOf is the text of a notice, with its link at the end of the first line.
func messageOf(n ops.Notice) message {
	if n.Link != "" {
		n.Body = notice.WithLink(n.Body, n.Link)
	}
	m := message{
		Title:  ops.OneLine(n.Title, longestTitle),
		Body:   strings.ToValidUTF8(strings.ReplaceAll(n.Body, "\x00", ""), "�"),
		Type:   "info",
		Format: "markdown",
	}
	if strings.TrimSpace(m.Body) == "" { // Apprise refuses an empty body
		m.Body = m.Title
	}
	switch n.Level {
	case ops.LevelInfo:
	case ops.LevelWarning:
		m.Type = "warning"
	case ops.LevelCritical:
		m.Type = "failure"
	}
	return m
}

const (
	// pipeDelay is how long a process that left the group may hold the output open.
	pipeDelay     = time.Second
	maxOutput     = 64 << 10
	longestReason = 300
)

// run sends with the program. The URLs are in a file that only this user can read, because every user can read a command line.
func (a *Apprise) run(ctx context.Context, m message) error {
	bin, err := exec.LookPath(a.bin)
	if err != nil {
		return missing(a.bin, err)
	}
	config, err := a.writeConfig()
	if err != nil {
		return fmt.Errorf("write apprise configuration: %w", err)
	}
	defer func() { _ = os.Remove(config) }() // it holds nothing that is still needed

	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, bin, "-v", "--config="+config, "--title="+m.Title, "--input-format="+m.Format,
		"--notification-type="+m.Type)
	cmd.Env = append(slices.DeleteFunc(cmd.Environ(), func(v string) bool { return !passes(v) }),
		"HOME="+a.dir, "LANG=C.UTF-8", "LC_ALL=C.UTF-8")
	cmd.Stdin = strings.NewReader(m.Body)
	cmd.Stdout = &bounded{buffer: &output, room: maxOutput}
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeDelay
	err = cmd.Run()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("run apprise: %w", context.Cause(ctx))
	default:
		return fmt.Errorf("apprise could not deliver (%w): %s; check CLAUDEOPS_APPRISE_URLS", err, a.complaint(output.String()))
	}
}

func missing(bin string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not installed: run 'apt install apprise', or set CLAUDEOPS_APPRISE_API to an Apprise API server: %w", bin, err)
	}
	return fmt.Errorf("find apprise: %w", err)
}

func (a *Apprise) writeConfig() (path string, err error) {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(a.dir, "apprise-*.conf") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(strings.Join(a.urls, "\n") + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// passes says which of our environment variables the program needs to reach the network; it gets no keys and tokens.
func passes(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	switch strings.ToUpper(name) {
	case "PATH", "TZ", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE":
		return true
	}
	return false
}

// logLine is how apprise writes an error; it also prints its whole help text.
var logLine = regexp.MustCompile(`(?m)^\S+ \S+ - (?:WARNING|ERROR|CRITICAL) - (.*)$`)

// complaint finds the error message in the program's output.
func (a *Apprise) complaint(output string) string {
	var said []string
	for _, match := range logLine.FindAllStringSubmatch(output, -1) {
		if !slices.Contains(said, match[1]) {
			said = append(said, match[1])
		}
	}
	if len(said) == 0 {
		lines := strings.Split(strings.TrimSpace(output), "\n")
		said = lines[len(lines)-1:]
	}
	text := ops.OneLine(a.hide.Replace(strings.Join(said, " ")), longestReason)
	if text == "" {
		return "it does not say why"
	}
	return text
}

// bounded keeps the first bytes and drops the rest.
type bounded struct {
	buffer *bytes.Buffer
	room   int
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.room)
	b.buffer.Write(p[:keep])
	b.room -= keep
	return len(p), nil
}
