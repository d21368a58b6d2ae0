package broker

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// The limits of a look at a writable layer.
const (
	layerTime    = 2 * time.Second
	layerEntries = 5000
	layerFree    = 1 << 20 // so much may be lost
	layerNamed   = 10      // files that are named
	layerAtOnce  = 8
)

// Layer is what a container holds outside of its volumes: a replacement loses it.
type Layer struct {
	ID        string
	Container string // the short id
	Name      string
	Bytes     int64
	Files     []string // the largest first, with their sizes
	Unseen    string   // why not all of it was seen
}

// Holds reports whether a replacement may lose data.
func (l Layer) Holds() bool { return l.Bytes > layerFree || l.Unseen != "" }

// Loss is what the reason of a step says that a human approves although data is lost. It is about this container and no other.
func (l Layer) Loss() string { return "loses the data outside the volumes of container " + l.Container }

// String says what would be lost.
func (l Layer) String() string {
	out := fmt.Sprintf("the container %s (%s) ", l.Name, l.Container)
	if l.Bytes > layerFree {
		out += fmt.Sprintf("holds %s outside its volumes: %s", size(l.Bytes), strings.Join(l.Files, ", "))
	} else {
		out += "may hold data outside its volumes"
	}
	if l.Unseen != "" {
		out += fmt.Sprintf(" (not all of it was seen: %s)", l.Unseen)
	}
	return out
}

func size(bytes int64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d kB", (bytes+1023)>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20))
}

// Layers looks at the containers of a service, as a session whose scope it is would find them. It is an error if none can be told.
func Layers(ctx context.Context, socket string, service Service) ([]Layer, error) {
	e := newEngine(socket)
	all, err := e.containers(ctx)
	if err != nil {
		return nil, err
	}
	var out []Layer
	var unclear error
	sc := scope{services: []Service{service}}
	for _, i := range all {
		if name, problem := sc.find(i, all); name == "" {
			if service.has(i.service()) {
				unclear = errors.New(problem)
			}
			continue
		}
		c, found, err := e.container(ctx, i.id)
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, e.layer(ctx, c))
		}
	}
	if len(out) == 0 {
		return nil, unclear
	}
	return out, nil
}

// layer looks at what a container wrote outside of its volumes.
func (e *engine) layer(ctx context.Context, c container) Layer {
	ctx, cancel := context.WithTimeout(ctx, layerTime)
	defer cancel()
	out := Layer{ID: c.ID, Container: c.ID[:min(len(c.ID), 12)], Name: c.identity().name}
	var whole struct{ SizeRw *int64 }
	if _, err := e.get(ctx, &whole, url.Values{"size": {"1"}}, "containers", c.ID, "json"); err != nil {
		out.Unseen = unseen(ctx, err)
		return out
	}
	if whole.SizeRw != nil && *whole.SizeRw <= layerFree {
		return out
	}
	var changes []struct {
		Path string
		Kind int
	}
	if _, err := e.get(ctx, &changes, nil, "containers", c.ID, "changes"); err != nil {
		out.Unseen = unseen(ctx, err)
		return out
	}
	const deleted = 2
	var paths []string
	for _, f := range changes {
		if f.Kind != deleted && !c.spare(f.Path) {
			paths = append(paths, f.Path)
		}
	}
	if len(paths) > layerEntries {
		out.Unseen = fmt.Sprintf("it has %d entries, and %d are looked at", len(paths), layerEntries)
		paths = paths[:layerEntries]
	}
	e.measure(ctx, c.ID, paths, &out)
	return out
}

func unseen(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return fmt.Sprintf("looking took longer than %s", layerTime)
	}
	return err.Error()
}

// measure adds the sizes of files, several at once.
func (e *engine) measure(ctx context.Context, id string, paths []string, out *Layer) {
	type file struct {
		path  string
		bytes int64
	}
	var mu sync.Mutex
	var files []file
	next := make(chan string)
	var workers sync.WaitGroup
	for range layerAtOnce {
		workers.Go(func() {
			for path := range next {
				bytes, err := e.fileSize(ctx, id, path)
				mu.Lock()
				if err != nil && out.Unseen == "" {
					out.Unseen = unseen(ctx, err)
				}
				out.Bytes += bytes
				files = append(files, file{path, bytes})
				mu.Unlock()
			}
		})
	}
	for _, path := range paths {
		next <- path // ends soon when ctx has ended
	}
	close(next)
	workers.Wait()
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.path, b.path)) })
	for _, f := range files[:min(len(files), layerNamed)] {
		if f.bytes > 0 {
			out.Files = append(out.Files, fmt.Sprintf("%q (%s)", f.path, size(f.bytes)))
		}
	}
}

// fileSize is the size of a regular file in a container. Others have none, and nor has one that is gone.
func (e *engine) fileSize(ctx context.Context, id, path string) (int64, error) {
	query := url.Values{"path": {path}}
	resp, err := e.send(ctx, target{method: http.MethodHead, path: []string{"containers", id, "archive"}, query: query})
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return 0, nil
	default:
		return 0, fmt.Errorf("ask the Docker engine for the size of %q: %s", path, resp.Status)
	}
	text, err := base64.StdEncoding.DecodeString(resp.Header.Get("X-Docker-Container-Path-Stat"))
	if err != nil {
		return 0, fmt.Errorf("read the size of %q: %w", path, err)
	}
	var stat struct {
		Size int64       `json:"size"`
		Mode fs.FileMode `json:"mode"`
	}
	if err := json.Unmarshal(text, &stat); err != nil {
		return 0, fmt.Errorf("read the size of %q: %w", path, err)
	}
	if !stat.Mode.IsRegular() {
		return 0, nil
	}
	return stat.Size, nil
}

// spare reports whether a file can be lost: temporary files, caches and logs, and what a mount covers.
func (c container) spare(file string) bool {
	below := func(dir string) bool { return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/") }
	if slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys", "/var/cache", "/var/log"}, below) {
		return true
	}
	for _, m := range c.Mounts {
		if below(m.Destination) {
			return true
		}
	}
	for dir := range c.HostConfig.Tmpfs {
		if below(path.Clean(dir)) {
			return true
		}
	}
	for part := range strings.SplitSeq(path.Dir(file), "/") {
		if part == "cache" || part == ".cache" || part == "__pycache__" {
			return true
		}
	}
	return strings.HasSuffix(file, ".log")
}
