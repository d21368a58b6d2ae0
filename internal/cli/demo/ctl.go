package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Exit codes of Ctl other than 0 and 1; they are the same as curl's.
const (
	exitUsage       = 2
	exitUnreachable = 7
	exitHTTPError   = 22
)

const (
	getTimeout = 10 * time.Second
	maxBody    = 64 << 10
)

// CtlName is the name of Ctl on the PATH of the demo's agents.
const CtlName = "mediaboxctl"

// InstallCtl links the program as CtlName in a folder. A link also works on a file system mounted noexec.
func InstallCtl(bin, self string) error {
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return fmt.Errorf("create program folder: %w", err)
	}
	if err := os.Symlink(self, filepath.Join(bin, CtlName)); err != nil {
		return fmt.Errorf("install %s: %w", CtlName, err)
	}
	return nil
}

// verbGet is handled here: it asks the service, not the keeper.
const verbGet = "get"

// Ctl is the tool of the demo's agents: it runs one verb on the demo in dir, prints its output, and returns the exit code. It reads log and
// configuration itself, because no agent reaches the keeper's socket. In addition to the verbs of Control it has get PATH, which prints the
// status line and the body of an HTTP answer, with code 22 for a status of 400 or more and 7 when nothing answers.
func Ctl(ctx context.Context, dir, verb string, args []string, stdout, stderr io.Writer) int {
	if verb == verbGet {
		return get(ctx, dir, args, stdout, stderr)
	}
	if len(args) > 0 {
		return fail(stderr, exitUsage, fmt.Errorf("%s takes no argument", verb))
	}
	var text string
	var err error
	switch Verb(verb) {
	case Log:
		text, err = lastLines(filepath.Join(dir, logFile), logLines)
	case Config:
		var data []byte
		data, err = os.ReadFile(filepath.Join(dir, confFile))
		text = string(data)
	default:
		text, err = Control(ctx, dir, Verb(verb))
	}
	if err != nil {
		return fail(stderr, 1, err)
	}
	if _, err := fmt.Fprintln(stdout, strings.TrimRight(text, "\n")); err != nil {
		return fail(stderr, 1, err)
	}
	return 0
}

func fail(stderr io.Writer, code int, err error) int {
	// If stderr fails too, the error cannot be reported.
	_, _ = fmt.Fprintf(stderr, "error: %v\n", err)
	return code
}

func get(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 || !strings.HasPrefix(args[0], "/") {
		return fail(stderr, exitUsage, errors.New("get takes one path of the service, such as /health"))
	}
	base, err := os.ReadFile(filepath.Join(dir, urlFile))
	if err != nil {
		return fail(stderr, 1, fmt.Errorf("find the demo in %s: is it running? %w", dir, err))
	}
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(base))+args[0], nil)
	if err != nil {
		return fail(stderr, exitUsage, err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	proxy, err := url.Parse(os.Getenv("HTTP_PROXY"))                   //nolint:forbidigo // an agent runs this
	if err == nil && proxy.Host != "" && os.Getenv("NO_PROXY") == "" { //nolint:forbidigo // as above
		transport.Proxy = http.ProxyURL(proxy) // a session without a network namespace reaches nothing else, loopback included
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fail(stderr, exitUnreachable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fail(stderr, exitUnreachable, err)
	}
	if _, err := fmt.Fprintf(stdout, "%s %s\n%s\n", resp.Proto, resp.Status, strings.TrimRight(string(body), "\n")); err != nil {
		return fail(stderr, 1, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return exitHTTPError
	}
	return 0
}

// The files in the folder of the demo.
const (
	confFile     = "service.conf"
	goodConfFile = "service.conf.good"
	lastConfFile = "service.conf.last" // what the last redeployment replaced
	cacheFile    = "cache"
	oldCacheFile = "cache.old" // what the last rebuild replaced
	logFile      = "service.log"
	pidFile      = "service.pid"
	urlFile      = "service.url"
	socketFile   = "keeper.sock"
)

// brokenUpstream is an address without a listener.
const brokenUpstream = "127.0.0.1:1"

// conf is the configuration of the service.
type conf struct {
	upstream string
}

func confText(comment, upstream string) string {
	return fmt.Sprintf("# mediabox configuration, %s\n# The library that mediabox serves from.\nupstream = %s\n", comment, upstream)
}

// readConf reads the configuration strictly, so that a typing error is reported.
func readConf(dir string) (conf, error) {
	path := filepath.Join(dir, confFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return conf{}, fmt.Errorf("read service configuration: %w", err)
	}
	var c conf
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(key) != "upstream" {
			return conf{}, fmt.Errorf("read service configuration: %s:%d: want upstream = HOST:PORT, found %q", path, i+1, line)
		}
		c.upstream = strings.TrimSpace(value)
	}
	if c.upstream == "" {
		return conf{}, fmt.Errorf("read service configuration: %s has no upstream", path)
	}
	return c, nil
}

// replaceFile writes a file so that a reader sees the old or the new one, never half of it.
func replaceFile(path, content string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(content), 0o644); err != nil { //nolint:gosec // agents see what others may read
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(path), err)
	}
	return nil
}

// Rules are the guard rules of the demo: agents may look with the program of its service. To change something, they ask the supervisor.
const Rules = `# Written by claudeops demo: operator rules for a program that the guard does not know.
rules:
  - id: mediabox-get
    program: mediaboxctl
    args: [get, "*"]
    tier: 1
    reason: Reading from mediabox changes nothing.
    match: [mediaboxctl get /health]
    not_match: [mediaboxctl redeploy, mediaboxctl get]
  - id: mediabox-status
    program: mediaboxctl
    args: [status]
    tier: 1
    reason: Every tier may read the status.
    match: [mediaboxctl status]
    not_match: [mediaboxctl restart]
  - id: mediabox-log
    program: mediaboxctl
    args: [log]
    tier: 1
    reason: Every tier may read the log.
    match: [mediaboxctl log]
    not_match: [mediaboxctl redeploy]
  - id: mediabox-config
    program: mediaboxctl
    args: [config]
    tier: 1
    reason: Every tier may read the configuration.
    match: [mediaboxctl config]
    not_match: [mediaboxctl break]
  - id: mediabox-break
    program: mediaboxctl
    args: [break]
    deny: true
    reason: Agents repair mediabox, they do not break it.
    match: [mediaboxctl break]
    not_match: [mediaboxctl status]
`
