package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	upstreamTimeout = 2 * time.Second
	shutdownTimeout = time.Second
)

// Service is the program of mediabox: it reads its configuration from dir once, serves on ln until ctx ends, and keeps a
// log and a pid file in dir. It closes ln.
func Service(ctx context.Context, dir string, ln net.Listener) (err error) {
	defer func() { _ = ln.Close() }() // closing twice is harmless
	logTo, err := openLog(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logTo.Close()) }()
	log := slog.New(slog.NewTextHandler(logTo, nil))
	c, err := readConf(dir)
	if err != nil {
		log.ErrorContext(ctx, "mediabox cannot start", "error", err)
		return err
	}
	pid := filepath.Join(dir, pidFile)
	if err := replaceFile(pid, strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(pid)) }()

	client, done := upstreamClient()
	defer done()
	server := &http.Server{
		Handler:           routes(dir, c, client, log),
		ReadHeaderTimeout: upstreamTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	log.InfoContext(ctx, "mediabox started", "pid", os.Getpid(), "upstream", c.upstream)
	err = serve(ctx, server, ln)
	log.InfoContext(ctx, "mediabox stopped", "pid", os.Getpid())
	return err
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, server *http.Server, ln net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// The context has ended; open requests get a little more time.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close() // close requests that did not end in time
	}
	<-ended
	return nil
}

func openLog(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // agents see it
	if err != nil {
		return nil, fmt.Errorf("open service log: %w", err)
	}
	return f, nil
}

// upstreamClient connects to loopback only, so it uses no proxy.
func upstreamClient() (client *http.Client, done func()) {
	transport := &http.Transport{DisableKeepAlives: true}
	return &http.Client{Transport: transport, Timeout: upstreamTimeout}, transport.CloseIdleConnections
}

func routes(dir string, c conf, client *http.Client, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "mediabox")
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if err := askLibrary(r.Context(), client, c.upstream); err != nil {
			log.ErrorContext(r.Context(), "library does not answer", "upstream", c.upstream, "error", err)
			answer(w, http.StatusBadGateway, "bad gateway: the library does not answer")
			return
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /player", func(w http.ResponseWriter, _ *http.Request) {
		page, err := os.ReadFile(filepath.Join(dir, cacheFile))
		if err != nil {
			answer(w, http.StatusServiceUnavailable, "the cache is empty")
			return
		}
		answer(w, http.StatusOK, string(page))
	})
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client may have disconnected
}

func askLibrary(ctx context.Context, client *http.Client, upstream string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+upstream+"/library", nil)
	if err != nil {
		return fmt.Errorf("ask library: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask library: HTTP %d", resp.StatusCode)
	}
	return nil
}

// inherited marks a listener that was handed down by the parent process.
const inherited = "fd:"

// keeperListener is how the keeper hands its listener down: as the first file after the standard three.
const keeperListener = inherited + "3"

// Listen opens what the service listens on: an address, or fd:N for a listener handed down by the parent process.
func Listen(ctx context.Context, where string) (net.Listener, error) {
	number, ok := strings.CutPrefix(where, inherited)
	if !ok {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", where)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		return ln, nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("listen on %q: want fd:3 or higher", where)
	}
	file := os.NewFile(uintptr(fd), where)
	ln, err := net.FileListener(file)
	closeErr := file.Close() // FileListener made its own copy
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", where, err)
	}
	if closeErr != nil {
		return nil, fmt.Errorf("listen on %q: %w", where, closeErr)
	}
	return ln, nil
}
