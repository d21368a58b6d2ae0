package dockertest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Registry is a registry of images on the loopback address of the daemon's network.
type Registry struct {
	Address string
	mu      sync.Mutex
	blobs   map[string][]byte // by digest; uploads by their path
	tags    map[string]string // "name:tag" → digest
	kinds   map[string]string // the media types of manifests

	asked, release chan struct{} // while pulls are held
}

// Hold lets pulls wait in the middle until letGo is called. The channel is closed when the first one waits.
func (r *Registry) Hold() (waits <-chan struct{}, letGo func()) {
	asked, release := make(chan struct{}), make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked, r.release = asked, release
	return asked, sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.release = nil
		close(release)
	})
}

// wait holds the request of a pull.
func (r *Registry) wait(req *http.Request) {
	r.mu.Lock()
	release := r.release
	_, digest, _ := strings.Cut(req.URL.Path, "/blobs/")
	content := r.blobs[digest]
	// The engine also reads the configuration of an image, which is JSON, when it is only asked about it.
	if release == nil || req.Method != http.MethodGet || len(content) == 0 || content[0] == '{' {
		r.mu.Unlock()
		return
	}
	if r.asked != nil {
		close(r.asked)
		r.asked = nil
	}
	r.mu.Unlock()
	select {
	case <-release:
	case <-req.Context().Done():
	}
}

// Registry starts a registry that ends with the test.
func (d *Daemon) Registry(tb testing.TB) *Registry {
	tb.Helper()
	ln, err := listenIn(d.Network(tb))
	if err != nil {
		tb.Fatal(err)
	}
	r := &Registry{Address: ln.Addr().String(), blobs: map[string][]byte{}, tags: map[string]string{}, kinds: map[string]string{}}
	server := &http.Server{Handler: http.HandlerFunc(r.serve)} //nolint:gosec // of a test
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) })
	tb.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return r
}

// Forward makes an address of the daemon's network reachable from here, and returns where.
func (d *Daemon) Forward(tb testing.TB, addr string) string {
	tb.Helper()
	network := d.Network(tb)
	ln, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() { join(network, addr, from) })
		}
	})
	tb.Cleanup(func() { _ = ln.Close(); open.Wait() })
	return ln.Addr().String()
}

// join copies between a connection and an address of another network, for a short time.
func join(network, addr string, from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := dialIn(context.Background(), network, addr)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	deadline := time.Now().Add(10 * time.Second)
	_, _ = from.SetDeadline(deadline), to.SetDeadline(deadline)
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from) })
	_, _ = io.Copy(from, to)
	_ = from.Close()
	both.Wait()
}

// listenIn listens on the loopback address of another network namespace.
func listenIn(network string) (ln net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var f *os.File
		if f, err = os.Open(network); err != nil { //nolint:gosec // below /proc
			return
		}
		defer func() { _ = f.Close() }()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err == nil {
			ln, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		}
	}()
	<-done
	return ln, err
}

// serve speaks as much of the distribution protocol as the engine needs to push and pull.
func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	r.wait(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	path := strings.TrimPrefix(req.URL.Path, "/v2/")
	body, err := io.ReadAll(req.Body)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case strings.Contains(path, "/blobs/uploads"):
		r.upload(w, req, body)
	case strings.Contains(path, "/blobs/"):
		_, digest, _ := strings.Cut(path, "/blobs/")
		r.give(w, req, digest, "application/octet-stream")
	case strings.Contains(path, "/manifests/"):
		name, ref, _ := strings.Cut(path, "/manifests/")
		if req.Method == http.MethodPut {
			digest := fmt.Sprintf("sha256:%x", sha256.Sum256(body))
			r.blobs[digest], r.tags[name+":"+ref], r.kinds[digest] = body, digest, req.Header.Get("Content-Type")
			w.Header().Set("Docker-Content-Digest", digest)
			w.WriteHeader(http.StatusCreated)
			return
		}
		if digest, known := r.tags[name+":"+ref]; known {
			ref = digest
		}
		r.give(w, req, ref, r.kinds[ref])
	}
}

func (r *Registry) upload(w http.ResponseWriter, req *http.Request, body []byte) {
	at := req.URL.Path
	if req.Method == http.MethodPost {
		at = fmt.Sprintf("%s%d", strings.TrimSuffix(at, "/")+"/", len(r.blobs))
		r.blobs[at] = nil
	}
	r.blobs[at] = append(r.blobs[at], body...)
	w.Header().Set("Location", at)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(0, len(r.blobs[at])-1)))
	if digest := req.URL.Query().Get("digest"); digest != "" {
		r.blobs[digest] = r.blobs[at]
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (r *Registry) give(w http.ResponseWriter, req *http.Request, digest, kind string) {
	content, known := r.blobs[digest]
	if !known {
		http.Error(w, `{"errors": [{"code": "MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
}
