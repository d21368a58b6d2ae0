package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// Ctl is the tool of the demo's agents: it runs one verb on the demo in dir, prints its output, and returns the exit code. In
// addition to the verbs of Control it has get PATH, which prints the status line and the body of an HTTP answer, with code 22 for a
// status of 400 or more and 7 when nothing answers.
func Ctl(ctx context.Context, dir, verb string, args []string, stdout, stderr io.Writer) int {
	if verb == verbGet {
		return get(ctx, dir, args, stdout, stderr)
	}
	if len(args) > 0 {
		return fail(stderr, exitUsage, fmt.Errorf("%s takes no argument", verb))
	}
	text, err := Control(ctx, dir, Verb(verb))
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
	client, done := upstreamClient()
	defer done()
	client.Timeout = 0
	resp, err := client.Do(req)
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
