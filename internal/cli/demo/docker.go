package demo

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The containers of the demo on a Docker engine, and their image.
const (
	Library = "claudeops-demo-library"
	Player  = "claudeops-demo-player"
	image   = "claudeops-demo:1"
)

const (
	dockerTimeout = time.Minute
	defaultSocket = "/var/run/docker.sock"
	startFile     = "start"
	// startScript ends at once when it is told to.
	startScript = "#!/bin/sh\ntrap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.2; done\n"
)

// Docker is the demo's part of a Docker engine: one image and two containers.
type Docker struct {
	client *http.Client
}

// DockerSocket is the Unix socket that DOCKER_HOST names, or the usual one.
func DockerSocket(host string) (string, error) {
	if host == "" {
		return defaultSocket, nil
	}
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return "", fmt.Errorf("DOCKER_HOST is %q: the demo needs an engine on a Unix socket, as unix:///var/run/docker.sock", host)
	}
	return path, nil
}

// NewDocker speaks to the engine on a Unix socket.
func NewDocker(socket string) *Docker {
	return &Docker{&http.Client{Timeout: dockerTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Up makes the image and starts both containers. Busybox is the program that the image consists of. After an error, Down must be
// called only when Up says that something was made.
func (d *Docker) Up(ctx context.Context, busybox string) (made bool, err error) {
	if err := d.ask(ctx, http.MethodGet, "/_ping", nil, nil); err != nil {
		return false, fmt.Errorf("reach the Docker engine (is it running? DOCKER_HOST names its socket): %w", err)
	}
	for _, name := range []string{Library, Player} {
		err := d.ask(ctx, http.MethodGet, "/containers/"+name+"/json", nil, nil)
		if err == nil {
			return false, fmt.Errorf("the container %s exists: wait until the other demo has ended, or run: docker rm -f %s %s",
				name, Library, Player)
		}
		if !errors.Is(err, errNotFound) {
			return false, err
		}
	}
	root, err := imageFiles(busybox)
	if err != nil {
		return false, err
	}
	name, tag, _ := strings.Cut(image, ":")
	query := url.Values{"fromSrc": {"-"}, "repo": {name}, "tag": {tag}, "changes": {"ENV PATH=/bin"}}
	if err := d.ask(ctx, http.MethodPost, "/images/create", query, root); err != nil {
		return false, fmt.Errorf("make the image of the demo: %w", err)
	}
	for _, name := range []string{Library, Player} {
		if err := d.start(ctx, name); err != nil {
			return true, err
		}
	}
	return true, nil
}

// start makes a container and starts it.
func (d *Docker) start(ctx context.Context, name string) error {
	spec, err := json.Marshal(map[string]any{
		"Image": image, "Cmd": []string{"/" + startFile}, "HostConfig": map[string]any{"NetworkMode": "none"},
	})
	if err == nil {
		err = d.ask(ctx, http.MethodPost, "/containers/create", url.Values{"name": {name}}, bytes.NewReader(spec))
	}
	if err == nil {
		err = d.ask(ctx, http.MethodPost, "/containers/"+name+"/start", nil, nil)
	}
	if err != nil {
		return fmt.Errorf("start container %s: %w", name, err)
	}
	return nil
}

// Break takes the permission to execute from the program of the library, and ends its process. A restart fails from then on.
func (d *Docker) Break(ctx context.Context) error {
	files, err := archive(file{startFile, startScript, 0o600})
	if err == nil {
		err = d.ask(ctx, http.MethodPut, "/containers/"+Library+"/archive", url.Values{"path": {"/"}}, files)
	}
	if err == nil {
		err = d.ask(ctx, http.MethodPost, "/containers/"+Library+"/stop", url.Values{"t": {"5"}}, nil)
	}
	if err != nil {
		return fmt.Errorf("break the library: %w", err)
	}
	return nil
}

// Recreate makes the library again from its image.
func (d *Docker) Recreate(ctx context.Context) error {
	if err := d.remove(ctx, "/containers/"+Library); err != nil {
		return err
	}
	return d.start(ctx, Library)
}

// Down removes the containers and the image.
func (d *Docker) Down(ctx context.Context) error {
	return errors.Join(d.remove(ctx, "/containers/"+Player), d.remove(ctx, "/containers/"+Library), d.remove(ctx, "/images/"+image))
}

func (d *Docker) remove(ctx context.Context, path string) error {
	query := url.Values{"force": {"1"}}
	if strings.HasPrefix(path, "/containers/") {
		query.Set("v", "1")
	}
	if err := d.ask(ctx, http.MethodDelete, path, query, nil); err != nil && !errors.Is(err, errNotFound) {
		return fmt.Errorf("remove %s: %w", filepath.Base(path), err)
	}
	return nil
}

var errNotFound = errors.New("not found")

// ask calls the engine and reports what it refuses.
func (d *Docker) ask(ctx context.Context, method, path string, query url.Values, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path+"?"+query.Encode(), body)
	if err != nil {
		return fmt.Errorf("ask the Docker engine: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-tar")
		if path == "/containers/create" {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer of the Docker engine: %w", err)
	case resp.StatusCode == http.StatusNotFound:
		return errNotFound
	case resp.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("the Docker engine answers %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	// An import answers 200 before it has begun, and tells an error as the last line.
	if i := bytes.Index(text, []byte(`"errorDetail"`)); i >= 0 {
		return fmt.Errorf("the Docker engine says: %s", bytes.TrimSpace(text))
	}
	return nil
}

// FindBusybox finds the program that the image consists of. It must work without libraries.
func FindBusybox(searched string) (string, error) {
	for _, dir := range append(filepath.SplitList(searched), "/bin", "/usr/bin", "/usr/local/bin") {
		path := filepath.Join(dir, "busybox")
		if static(path) {
			return path, nil
		}
	}
	return "", errors.New("no static busybox is installed, and the demo makes its image from one: " +
		"install busybox-static (Debian, Ubuntu) or busybox (Alpine, Fedora)")
}

func static(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// file is an entry of an archive; one with the mode 0 is a link to busybox.
type file struct {
	name, text string
	mode       int64
}

func imageFiles(busybox string) (io.Reader, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	return archive(
		file{"bin/busybox", string(program), 0o755}, file{name: "bin/sh"}, file{name: "bin/sleep"}, file{startFile, startScript, 0o755},
	)
}

func archive(files ...file) (io.Reader, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg}
		if f.mode == 0 {
			h.Mode, h.Typeflag, h.Linkname = 0o777, tar.TypeSymlink, "busybox"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return &out, nil
}
