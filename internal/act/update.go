package act

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	pullLimit     = 15 * time.Minute
	registryLimit = 20 * time.Second
	// keptImages is below which name old images are kept.
	keptImages = "claudeops/kept/"
	// keptSearched is how many earlier updates may still keep an image.
	keptSearched = 20
)

// Current is the container of a service.
type Current struct {
	Container string // its id
	Image     ops.Image
	Running   bool
	Started   bool   // ever
	Restarts  int    // by the engine
	Trouble   string // what is wrong with it, whatever its service answers; empty: nothing
	digests   []string
}

// Current finds the container of a service and what it was made from. Without one it is ops.ErrNotFound.
func (r *Runner) Current(ctx context.Context, env ops.Environment, spec ops.ActionSpec) (Current, error) {
	socket := r.o.Docker
	if socket == "" {
		return Current{}, errors.New("there is no Docker engine to ask: set docker.socket")
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	e := newEngine(socket)
	name, err := e.composed(ctx, spec)
	if err != nil {
		return Current{}, err
	}
	c, err := e.inspect(ctx, name)
	if err != nil {
		return Current{}, err
	}
	found, digests, err := e.image(ctx, c.Image, c.Config.Image)
	return Current{
		Container: c.ID, Image: found, Running: c.State.Running, Started: c.State.Status != "created",
		Restarts: c.RestartCount, Trouble: c.trouble(), digests: digests,
	}, err
}

// composed is the container of a service: by its name, or by its labels where nothing has the name.
func (e engine) composed(ctx context.Context, spec ops.ActionSpec) (string, error) {
	if spec.Container != "" {
		if _, err := e.call(ctx, http.MethodGet, "/containers/"+spec.Container+"/json", nil); !errors.Is(err, ops.ErrNotFound) {
			return spec.Container, err
		}
	}
	labels := []string{"com.docker.compose.service=" + spec.Compose.Service}
	if spec.Compose.Project != "" {
		labels = append(labels, "com.docker.compose.project="+spec.Compose.Project)
	}
	filters, err := json.Marshal(map[string][]string{"label": labels})
	if err != nil {
		return "", err
	}
	text, err := e.call(ctx, http.MethodGet, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filters)}})
	if err != nil {
		return "", err
	}
	var all []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return "", fmt.Errorf("read the containers of %s: %w", spec.Service, err)
	}
	projects := map[string]bool{}
	for _, c := range all {
		projects[c.Labels["com.docker.compose.project"]] = true
	}
	switch {
	case len(all) == 0:
		return "", fmt.Errorf("%s has no container here: %w", spec.Service, ops.ErrNotFound)
	case len(projects) > 1:
		return "", fmt.Errorf("several compose projects have a service %s: add container or compose.project to %s",
			spec.Compose.Service, spec.Service)
	}
	return all[0].ID, nil // the newest
}

// image describes an image that is here.
func (e engine) image(ctx context.Context, id, ref string) (ops.Image, []string, error) {
	text, err := e.call(ctx, http.MethodGet, "/images/"+id+"/json", nil)
	if err != nil {
		return ops.Image{}, nil, err
	}
	var found struct {
		ID          string `json:"Id"`
		RepoDigests []string
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return ops.Image{}, nil, fmt.Errorf("read the image %s: %w", id, err)
	}
	out := ops.Image{Ref: ref, ID: found.ID}
	for _, d := range found.RepoDigests {
		if name, digest, _ := strings.Cut(d, "@"); repository(name) == repository(ref) {
			out.Digest = digest
		}
	}
	return out, found.RepoDigests, nil
}

// tagged is a reference without its digest. It must name a tag: nothing is newer than a digest.
func tagged(ref string) (string, error) {
	name, _, pinned := strings.Cut(ref, "@")
	hasTag := strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/')
	switch {
	case strings.HasPrefix(ref, "sha256:"):
		return "", errors.New("its container was made from an image without a name")
	case pinned && !hasTag:
		return "", errors.New("its image is pinned by a digest: name another one with --to")
	case !hasTag:
		name += ":latest"
	}
	return name, nil
}

// newest asks the registry, through the engine and without credentials, for the digest of a reference.
func (r *Runner) newest(ctx context.Context, ref string) (string, error) {
	if _, digest, pinned := strings.Cut(ref, "@"); pinned {
		return digest, nil
	}
	ctx, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	text, err := newEngine(r.o.Docker).call(ctx, http.MethodGet, "/distribution/"+ref+"/json", nil)
	switch {
	case errors.Is(err, errSilent):
		return "", err
	case err != nil:
		return "", fmt.Errorf("the registry cannot be asked for %s (private images need credentials, which are not used): %w", ref, err)
	}
	var found struct {
		Descriptor struct {
			Digest string `json:"digest"`
		}
	}
	if err := json.Unmarshal(text, &found); err != nil || found.Descriptor.Digest == "" {
		return "", fmt.Errorf("the registry gave no digest for %s", ref)
	}
	return found.Descriptor.Digest, nil
}

// Version looks at the image of a service and at the newest of its tag.
func (r *Runner) Version(ctx context.Context, env ops.Environment, spec ops.ActionSpec) ops.Version {
	v := ops.Version{Environment: env.Name, Service: spec.Service, At: r.o.Clock()}
	now, err := r.Current(ctx, env, spec)
	v.Image = now.Image
	var ref string
	if err == nil {
		ref, err = tagged(now.Image.Ref)
	}
	if err == nil {
		v.Newest, err = r.newest(ctx, ref)
	}
	switch {
	case err != nil:
		v.Unknown = r.o.Redact(err.Error())
	case now.has(v.Newest):
		v.Image.Digest = v.Newest
	}
	return v
}

func (c Current) has(digest string) bool {
	return slices.ContainsFunc(c.digests, func(d string) bool { return strings.HasSuffix(d, "@"+digest) })
}

// Fetch finds the image that an update wants, brings it to the engine, and tags the old one so that a prune keeps it. No container is
// touched.
func (r *Runner) Fetch(ctx context.Context, env ops.Environment, spec ops.ActionSpec, u *ops.Update) error {
	now, err := r.Current(ctx, env, spec)
	if err != nil {
		return err
	}
	socket := r.o.Docker
	if err := losses(ctx, spec, socket, ""); err != nil {
		var no *Refusal
		if errors.As(err, &no) {
			return fmt.Errorf("%s Move the data to a volume first, or redeploy it by hand", no.Reason)
		}
		return err
	}
	if now.Trouble != "" {
		return fmt.Errorf("%s does not work now, so nothing could be compared: %s", spec.Service, now.Trouble)
	}
	u.Before, u.Touches = now.Image, watchedServices(env, spec)
	if u.States = r.Look(ctx, env, u.Touches); len(u.States) == 0 || u.States[0].Service != spec.Service || u.States[0].Status == ops.Down {
		return fmt.Errorf("%s does not work now, so nothing could be compared: repair it first", spec.Service)
	}
	if u.After, err = r.wanted(ctx, now, u.To); err != nil || u.After.ID != "" {
		return err
	}
	e := newEngine(socket)
	if err := r.pull(ctx, e, u.After); err != nil {
		return err
	}
	name, _, _ := strings.Cut(u.After.Ref, "@")
	digest := u.After.Digest
	if u.After, _, err = e.image(ctx, withoutTag(name)+"@"+digest, u.After.Ref); err != nil {
		return err
	}
	u.After.Digest = digest
	u.Kept = keptName(*u)
	return e.tag(ctx, u.Before.ID, u.Kept)
}

// wanted is the image that an update is about; it has an id if the container has it already.
func (r *Runner) wanted(ctx context.Context, now Current, to string) (ops.Image, error) {
	ref := to
	if ref == "" {
		var err error
		if ref, err = tagged(now.Image.Ref); err != nil {
			return ops.Image{}, err
		}
	}
	if repository(ref) != repository(now.Image.Ref) {
		return ops.Image{}, fmt.Errorf("%s is another repository than that of %s: change the compose file and replace the container by hand",
			ref, now.Image.Ref)
	}
	digest, err := r.newest(ctx, ref)
	if err != nil {
		return ops.Image{}, err
	}
	if now.has(digest) {
		return now.Image, nil
	}
	name, _, _ := strings.Cut(ref, "@")
	return ops.Image{Ref: name + "@" + digest, Digest: digest}, nil
}

// repository is the part of an image reference before its tag and digest, in its long form.
func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	ref = withoutTag(ref)
	host, _, found := strings.Cut(ref, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		ref = "docker.io/" + ref
	}
	ref = strings.Replace(ref, "index.docker.io/", "docker.io/", 1)
	if strings.Count(ref, "/") == 1 && strings.HasPrefix(ref, "docker.io/") {
		ref = strings.Replace(ref, "docker.io/", "docker.io/library/", 1)
	}
	return ref
}

func withoutTag(name string) string {
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i]
	}
	return name
}

// keptName is the tag that keeps the old image of an update.
func keptName(u ops.Update) string {
	slug := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(u.Service))
	return fmt.Sprintf("%s%s:%s-%.12s", keptImages, cmp.Or(strings.Trim(slug, "-"), "service"), u.AskedAt.UTC().Format("20060102"),
		strings.TrimPrefix(u.Before.ID, "sha256:"))
}

func (e engine) tag(ctx context.Context, image, as string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	name := withoutTag(as)
	query := url.Values{"repo": {name}, "tag": {strings.TrimPrefix(as[len(name):], ":")}}
	_, err := e.call(ctx, http.MethodPost, "/images/"+image+"/tag", query)
	if err != nil {
		return fmt.Errorf("tag the image as %s: %w", as, err)
	}
	return nil
}

// pull brings an image to the engine, by its digest.
func (r *Runner) pull(ctx context.Context, e engine, image ops.Image) error {
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	name, _, _ := strings.Cut(image.Ref, "@")
	resp, err := e.send(ctx, http.MethodPost, "/images/create", url.Values{"fromImage": {withoutTag(name)}, "tag": {image.Digest}})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := json.NewDecoder(resp.Body); ; {
		var line struct {
			Error, Message string
		}
		switch err := lines.Decode(&line); {
		case resp.StatusCode/100 != 2:
			return fmt.Errorf("pull %s: the Docker engine answered %s: %s", image, resp.Status, short(line.Message))
		case line.Error != "":
			return fmt.Errorf("pull %s: %s", image, short(line.Error))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("pull %s: %w", image, err)
		}
	}
}

// UpdateKey marks the processes of an update, so that they are found again.
func UpdateKey(u ops.Update) string { return fmt.Sprintf("update-%d-%d", u.ID, u.AskedAt.UnixMicro()) }

// Change recreates the service of an update with its new image, or with the old one. What is replaced on the way back is the container
// that the update made: what that wrote outside its volumes is lost.
func (r *Runner) Change(ctx context.Context, env ops.Environment, spec ops.ActionSpec, u ops.Update, back bool) error {
	free, err := r.o.Turns.take(ctx, env.Name)
	if err != nil {
		return err
	}
	defer free()
	if err := r.o.May(); err != nil {
		return err
	}
	t := &task{pin: u.After.Ref}
	if back {
		t.pin, t.lose = u.Before.Ref, true
		if !strings.Contains(t.pin, "@") { // the tag may mean another image by now
			if err := newEngine(r.o.Docker).tag(ctx, u.Before.ID, t.pin); err != nil {
				return err
			}
		}
	}
	if now, err := r.Current(ctx, env, spec); err == nil {
		if t.before, err = newEngine(r.o.Docker).inspect(ctx, now.Container); err != nil {
			return err
		}
	}
	defer t.clean()
	if err := r.prepareCompose(ctx, env, spec, t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	out, err := t.perform(ctx, UpdateKey(u))
	r.o.Logger.InfoContext(ctx, "recreated a service for its update", "service", u.Service, "update", u.ID, "image", t.pin, "error", err,
		"output", r.o.Redact(ops.Ends(out, 0, 1000, "…")))
	if err != nil {
		return fmt.Errorf("%w: %s", err, r.o.Redact(ops.Ends(strings.TrimSpace(out), 0, 300, "…")))
	}
	return nil
}

// override is a compose file that names the image of one service.
func (r *Runner) override(env ops.Environment, file string, c ops.Compose, image string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // checked out by the supervisor itself
	if err != nil {
		return "", fmt.Errorf("read the compose file: %w", err)
	}
	with := map[string]any{"services": map[string]any{c.Service: map[string]string{"image": image}}}
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(line, "version:"); ok { // older programs want the same in all files
			with["version"] = strings.Trim(strings.TrimSpace(version), `"'`)
		}
	}
	content, err := json.Marshal(with) // JSON is YAML
	if err != nil {
		return "", err
	}
	dir := filepath.Join(env.StateDir, "updates")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder for compose files: %w", err)
	}
	path := filepath.Join(dir, url.PathEscape(c.Repo+" "+c.Service)+".yml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("write the compose file of an update: %w", err)
	}
	return path, nil
}

// Keep lets the tag mean the new image, so that a redeployment keeps it, and gives up the old images of earlier updates.
func (r *Runner) Keep(ctx context.Context, env ops.Environment, u ops.Update, earlier []ops.Update) error {
	e := newEngine(r.o.Docker)
	if name, _, _ := strings.Cut(u.After.Ref, "@"); name != withoutTag(name) {
		if err := e.tag(ctx, u.After.ID, name); err != nil {
			return err
		}
	}
	for _, o := range earlier[:min(len(earlier), keptSearched)] {
		if o.Kept == "" || o.Kept == u.Kept {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		_, err := e.call(ctx, http.MethodDelete, "/images/"+o.Kept, nil)
		cancel()
		if err != nil && !errors.Is(err, ops.ErrNotFound) {
			r.o.Logger.InfoContext(ctx, "an old image stays", "image", o.Kept, "error", err) // a container uses it
		}
	}
	return nil
}

// SettleTime is how long services may take to work after a change.
func (r *Runner) SettleTime(ctx context.Context, env ops.Environment, services []string) time.Duration {
	return r.o.Settle(ctx, env.Name, services)
}

// Verify looks until nothing is worse than before an update, twice in a row, or the time that the services may take to start is over. It
// returns what is worse.
func (r *Runner) Verify(ctx context.Context, env ops.Environment, spec ops.ActionSpec, u ops.Update) []string {
	until, cancel := context.WithTimeout(ctx, r.o.Settle(ctx, env.Name, u.Touches)+r.o.Round)
	defer cancel()
	for good := 0; ; {
		worse := ops.Worse(u.States, r.Look(ctx, env, u.Touches))
		if now, err := r.Current(ctx, env, spec); err == nil && now.Trouble != "" {
			worse = append(worse, now.Trouble)
		}
		if good++; len(worse) > 0 {
			good = 0
		}
		if good == 2 || !ops.Pause(until, r.o.Round) {
			return worse
		}
	}
}
