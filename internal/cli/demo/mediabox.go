// Package demo is a small real service and the incident of the demo.
//
// The service is called mediabox. It answers /health with 200 while the library it is configured for answers, and with 502 otherwise. It
// reads its configuration at every request. Its page /player comes from a cache, which it fills from the library when there is none.
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
	"strings"
	"sync"
	"time"
)

const (
	upstreamTimeout = 2 * time.Second
	shutdownTimeout = time.Second
)

// The files in the folder of the service.
const (
	Conf     = "service.conf"
	GoodConf = "service.conf.good"
	LastConf = "service.conf.last" // what the last restoration replaced
	Cache    = "cache"
	OldCache = "cache.old" // what the last rebuild replaced
	Log      = "service.log"
)

// brokenUpstream is an address without a listener.
const brokenUpstream = "127.0.0.1:1"

// libraryText is the page of the player, as the library gives it.
const libraryText = "player: 3 films ready to watch"

// Mediabox is the running service and the library behind it.
type Mediabox struct {
	dir     string
	url     string
	client  *http.Client
	file    *os.File // its log
	log     *slog.Logger
	stop    context.CancelFunc
	serving sync.WaitGroup

	filling sync.Mutex // of the cache
}

// Start starts the library and a healthy service whose files are in dir. They run until Close.
func Start(ctx context.Context, dir string) (*Mediabox, error) {
	file, err := os.OpenFile(filepath.Join(dir, Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // agents see it
	if err != nil {
		return nil, fmt.Errorf("open service log: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Mediabox{
		dir: dir, file: file, log: slog.New(slog.NewTextHandler(file, nil)), stop: stop,
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: upstreamTimeout},
	}
	if err = m.start(life); err == nil {
		_, err = m.page(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Mediabox) start(life context.Context) error {
	library, err := m.serve(life, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, libraryText) }))
	if err != nil {
		return err
	}
	for _, name := range []string{GoodConf, Conf} {
		if err := m.write(name, confText("as released", library)); err != nil {
			return err
		}
	}
	front, err := m.serve(life, m.routes())
	m.url = "http://" + front
	m.log.InfoContext(life, "mediabox started", "pid", os.Getpid(), "upstream", library)
	return err
}

// serve answers on a free port of this machine until life ends.
func (m *Mediabox) serve(life context.Context, h http.Handler) (addr string, err error) {
	ln, err := new(net.ListenConfig).Listen(life, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("start demo service: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: upstreamTimeout, ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn)}
	m.serving.Go(func() { _ = server.Serve(ln) }) // until Shutdown
	m.serving.Go(func() {
		<-life.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(life), shutdownTimeout)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // close requests that did not end in time
		}
	})
	return ln.Addr().String(), nil
}

// URL is the address of the service.
func (m *Mediabox) URL() string { return m.url }

// Break rolls out a configuration that names no library.
func (m *Mediabox) Break() error {
	return m.write(Conf, confText("rolled out by config-sync", brokenUpstream))
}

// Close stops the service and its library, and waits for them.
func (m *Mediabox) Close() error {
	m.stop()
	m.serving.Wait()
	return m.file.Close()
}

func (m *Mediabox) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if _, err := m.library(r.Context()); err != nil {
			answer(w, http.StatusBadGateway, "bad gateway: the library does not answer")
			return
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /player", func(w http.ResponseWriter, r *http.Request) {
		page, err := m.page(r.Context())
		if err != nil {
			answer(w, http.StatusServiceUnavailable, "the cache is empty")
			return
		}
		answer(w, http.StatusOK, page)
	})
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client may have disconnected
}

// page is what the cache holds. An empty one is filled from the library.
func (m *Mediabox) page(ctx context.Context) (string, error) {
	m.filling.Lock()
	defer m.filling.Unlock()
	text, err := os.ReadFile(filepath.Join(m.dir, Cache))
	if !errors.Is(err, os.ErrNotExist) {
		return string(text), err
	}
	page, err := m.library(ctx)
	if err != nil {
		return "", err
	}
	return page, m.write(Cache, page)
}

// library asks the library that the configuration names.
func (m *Mediabox) library(ctx context.Context) (page string, err error) {
	upstream, err := readConf(filepath.Join(m.dir, Conf))
	defer func() {
		if err != nil && ctx.Err() == nil {
			m.log.ErrorContext(ctx, "library does not answer", "upstream", upstream, "error", err)
		}
	}()
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+upstream+"/library", nil)
	if err != nil {
		return "", fmt.Errorf("ask library: %w", err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask library: HTTP %d", resp.StatusCode)
	}
	return strings.TrimSpace(string(text)), err
}

func confText(comment, upstream string) string {
	return fmt.Sprintf("# mediabox configuration, %s\n# The library that mediabox serves from.\nupstream = %s\n", comment, upstream)
}

// readConf finds the library in the configuration.
func readConf(path string) (upstream string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read service configuration: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "upstream" {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("read service configuration: %s has no upstream", path)
}

// write replaces a file so that a reader sees the old or the new one, never half of it.
func (m *Mediabox) write(name, content string) error {
	path := filepath.Join(m.dir, name)
	err := os.WriteFile(path+".new", []byte(content), 0o644) //nolint:gosec // agents see what others may read
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
