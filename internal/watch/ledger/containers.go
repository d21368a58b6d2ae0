package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
)

const (
	shortID        = 12 // as Docker shortens it
	composeService = "com.docker.compose.service"
	maxFiles       = 20  // of a mount that are named one by one
	maxWalked      = 500 // of a mount that are looked at
)

// Containers looks at the containers of an engine: those of the environment's services, and those that belong to none.
type Containers struct {
	Socket       string
	Environments []ops.Environment
}

// Kind is what it looks at.
func (Containers) Kind() ops.ChangeKind { return ops.ChangeContainer }

// inspected is the part of a container that is compared.
type inspected struct {
	ID           string `json:"Id"`
	Name         string
	Image        string // the digest
	RestartCount int
	Config       map[string]json.RawMessage
	HostConfig   map[string]json.RawMessage
	Mounts       []struct {
		mount
		RW bool
	}
	State struct {
		Status, StartedAt, FinishedAt string
		ExitCode                      int
		OOMKilled                     bool
	}
	NetworkSettings struct{ Networks map[string]json.RawMessage }
}

type mount struct{ Type, Name, Source, Destination, Mode string }

// Look asks the engine.
func (c Containers) Look(ctx context.Context, env ops.Environment, _ map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	named := slices.ContainsFunc(env.Policy.Inventory.Services, func(s ops.Service) bool { return s.Container != "" })
	if _, err := os.Stat(c.Socket); errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil, nil // there is no engine, and nobody expects one
	}
	var list []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
	}
	if _, err := broker.Ask(ctx, c.Socket, &list, url.Values{"all": {"1"}}, "containers", "json"); err != nil {
		return nil, nil, err
	}
	var out []ops.Resource
	for _, found := range list {
		names := slices.Clone(found.Names)
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], "/")
		}
		service, mine := c.owner(env, names, found.Labels)
		if !mine || len(names) == 0 {
			continue
		}
		if len(out) > maxResources {
			out = append(out, ops.Resource{Subject: names[0]}) // they are counted
			continue
		}
		var seen inspected
		exists, err := broker.Ask(ctx, c.Socket, &seen, nil, "containers", found.ID, "json")
		switch {
		case err != nil:
			out = append(out, ops.Resource{Subject: names[0], Unseen: err.Error()})
		case exists && (service != "" || string(seen.HostConfig["AutoRemove"]) != "true"): // others come and go
			out = append(out, seen.resource(ctx, service))
		}
	}
	return out, nil, nil
}

// owner finds the service that a container belongs to, and reports whether the environment has anything to do with it.
func (c Containers) owner(env ops.Environment, names []string, labels map[string]string) (service string, mine bool) {
	if service = serviceOf(env, names, labels); service != "" {
		return service, true
	}
	for _, other := range c.Environments {
		if other.Name != env.Name && serviceOf(other, names, labels) != "" {
			return "", false
		}
	}
	return "", true
}

func serviceOf(env ops.Environment, names []string, labels map[string]string) string {
	for _, s := range env.Policy.Inventory.Services {
		own := append([]string{s.Name, s.Container}, s.Aliases...)
		for _, p := range env.Probes {
			if p.Service == s.Name {
				own = append(own, p.Container)
			}
		}
		label := labels[composeService]
		composed := label == s.Name
		for _, a := range s.Actions {
			own = append(own, a.Container)
			composed = composed || a.Compose.Service != "" && label == a.Compose.Service
		}
		if composed && label != "" || slices.ContainsFunc(names, func(n string) bool { return n != "" && slices.Contains(own, n) }) {
			return s.Name
		}
	}
	return ""
}

// thing is what is compared of a container. Values of the environment can be secrets, so only their digest is kept.
func (c inspected) resource(ctx context.Context, service string) ops.Resource {
	state := c.State.Status
	if state == "exited" || state == "dead" {
		state += fmt.Sprintf(" (%d)", c.State.ExitCode)
		if c.State.OOMKilled {
			state += ", out of memory"
		}
	}
	var image string
	_ = json.Unmarshal(c.Config["Image"], &image) // none is shown as none
	digest := strings.TrimPrefix(c.Image, "sha256:")
	networks := []string{}
	for name := range c.NetworkSettings.Networks {
		networks = append(networks, name)
	}
	slices.Sort(networks)
	var mounts []mount
	for _, m := range c.Mounts {
		mounts = append(mounts, m.mount)
	}
	slices.SortFunc(mounts, func(a, b mount) int { return strings.Compare(a.Destination, b.Destination) })
	t := ops.Resource{Subject: strings.TrimPrefix(c.Name, "/"), Service: service, Parts: []ops.Part{
		{Name: partID, Value: c.ID[:min(len(c.ID), shortID)]},
		{Name: "image", Value: ops.Cut(fmt.Sprintf("%s (%s)", image, digest[:min(len(digest), shortID)]), maxPart)},
		{Name: "environment", Value: digestOf(c.Config["Env"])},
		{Name: "command", Value: digestOf(c.Config["Entrypoint"], c.Config["Cmd"], c.Config["User"], c.Config["WorkingDir"])},
		{Name: "labels", Value: digestOf(withoutMachinery(c.Config["Labels"]))},
		{Name: "mounts", Value: digestOf(mounts)},
		{Name: "ports", Value: digestOf(c.HostConfig["PortBindings"])},
		{Name: "networks", Value: digestOf(networks)},
		{Name: "limits", Value: digestOf(c.HostConfig["Memory"], c.HostConfig["NanoCpus"], c.HostConfig["PidsLimit"], c.HostConfig["Ulimits"])},
		{Name: "rights", Value: digestOf(c.HostConfig["Privileged"], c.HostConfig["CapAdd"], c.HostConfig["CapDrop"], c.HostConfig["Devices"],
			c.HostConfig["SecurityOpt"], c.HostConfig["ReadonlyRootfs"])},
		{Name: "restart policy", Value: digestOf(c.HostConfig["RestartPolicy"])},
		{Name: "state", Value: state},
		{Name: "restarts", Value: fmt.Sprint(c.RestartCount)},
		{Name: partStarted, Value: c.State.StartedAt},
	}}
	for _, text := range []string{c.State.StartedAt, c.State.FinishedAt} {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.After(t.At) && at.Year() > 1 {
			t.At = at
		}
	}
	if service == "" {
		return t
	}
	for _, m := range c.Mounts {
		if m.Type == "bind" && !m.RW {
			t.Parts = append(t.Parts, files(ctx, m.Source, &t.At)...)
		}
	}
	return t
}

// files are the files that a service may read and not write, such as its configuration: a change there was made by somebody else. A folder
// with many of them is one part. What this process cannot see (it may run in a container itself) is left out. Newest becomes the time of
// the newest change.
func files(ctx context.Context, root string, newest *time.Time) (parts []ops.Part) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path != root, ctx.Err() != nil:
			return fs.SkipAll
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case len(parts) > maxWalked:
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it has gone meanwhile, which the next look tells
		}
		if info.ModTime().After(*newest) {
			*newest = info.ModTime()
		}
		parts = append(parts, ops.Part{Name: "file " + path, Value: digestOf(info.Size(), info.Mode().String(), info.ModTime().UnixNano())})
		return nil
	})
	if err != nil || len(parts) <= maxFiles {
		return parts
	}
	return []ops.Part{{Name: "files in " + root, Value: digestOf(parts)}}
}

// withoutMachinery drops what compose writes into labels about itself: it differs without a change of the service.
func withoutMachinery(raw json.RawMessage) map[string]string {
	labels := map[string]string{}
	_ = json.Unmarshal(raw, &labels) // no labels are no labels
	for name := range labels {
		if strings.HasPrefix(name, "com.docker.compose.") {
			delete(labels, name)
		}
	}
	return labels
}

// digestOf is a short digest of values, marked as one.
func digestOf(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		return "#" + err.Error()
	}
	sum := sha256.Sum256(text)
	return "#" + hex.EncodeToString(sum[:8])
}
