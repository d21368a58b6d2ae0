package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// container is what the engine says about a container.
type container struct {
	ID         string `json:"Id"`
	Name       string
	Image      string // its id
	State      struct{ Running bool }
	Config     object
	HostConfig object
	Mounts     []mount

	NetworkSettings struct{ Networks map[string]object }
}

type mount struct {
	Type        string
	Name        string
	Source      string
	Destination string
	RW          bool
}

func (c container) identity() identity {
	labels := map[string]string{}
	given, _ := c.Config["Labels"].(object)
	for k, v := range given {
		if text, ok := v.(string); ok {
			labels[k] = text
		}
	}
	return identity{id: c.ID, name: strings.TrimPrefix(c.Name, "/"), labels: labels}
}

// defaults is what an image adds to a container that does not say otherwise.
type defaults struct {
	ID     string `json:"Id"`
	Config struct {
		User string
		Env  []string
	}
}

// comparison checks a field of a new container against the one it replaces.
type comparison func(field string, value any, old object) error

// more says that the new container would have something that the replaced one does not have.
func more(field string, value any) error {
	return fmt.Errorf("%s %s is not what the replaced container has", field, ops.Cut(canonical(value), 200))
}

// free fields give no power over anything outside the container.
func free(string, any, object) error { return nil }

// same fields are empty or as they were.
func same(field string, value any, old object) error {
	if isEmpty(value) || canonical(value) == canonical(old[field]) {
		return nil
	}
	return more(field, value)
}

// oneOf is like same, and also takes some harmless values.
func oneOf(harmless ...string) comparison {
	return func(field string, value any, old object) error {
		if text, ok := value.(string); ok && slices.Contains(harmless, text) {
			return nil
		}
		return same(field, value, old)
	}
}

// subset lists and maps have no entry that was not there.
func subset(field string, value any, old object) error {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		before, _ := old[field].([]any)
		for _, e := range v {
			if !contains(before, e) {
				return more(field, e)
			}
		}
		return nil
	case object:
		before, _ := old[field].(object)
		for name, e := range v {
			if was, ok := before[name]; !ok || canonical(was) != canonical(e) {
				return more(field, object{name: e})
			}
		}
		return nil
	}
	return more(field, value)
}

func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(e any) bool { return canonical(e) == canonical(v) })
}

// exact lists hold the same entries: one that is missing can give power too.
func exact(field string, value any, old object) error {
	if err := subset(field, value, old); err != nil {
		return err
	}
	return includes(field, value, old)
}

// includes lists hold at least what was there.
func includes(field string, value any, old object) error {
	before, _ := old[field].([]any)
	now, _ := value.([]any)
	for _, e := range before {
		if !contains(now, e) {
			return fmt.Errorf("%s lacks %s", field, canonical(e))
		}
	}
	return nil
}

// hidden paths are the engine's own or as they were; an empty list would show all of them.
func hidden(field string, value any, old object) error {
	if value == nil || canonical(value) == canonical(old[field]) {
		return nil
	}
	return more(field, value)
}

// restricted fields may be switched on, and stay on.
func restricted(field string, value any, old object) error {
	if isEmpty(value) && !isEmpty(old[field]) {
		return fmt.Errorf("%s is off", field)
	}
	if _, ok := value.(bool); !ok && value != nil {
		return more(field, value)
	}
	return nil
}

// capabilities are compared without their prefix and case.
func capabilities(check comparison) comparison {
	plain := func(v any) any {
		list, ok := v.([]any)
		if !ok {
			return v
		}
		out := make([]any, len(list))
		for i, e := range list {
			text, ok := e.(string)
			if !ok {
				return v
			}
			out[i] = strings.TrimPrefix(strings.ToUpper(text), "CAP_")
		}
		return out
	}
	return func(field string, value any, old object) error {
		return check(field, plain(value), object{field: plain(old[field])})
	}
}

// notLower numbers may only grow.
func notLower(field string, value any, old object) error {
	if value == nil {
		value = json.Number("0")
	}
	now, ok := value.(json.Number)
	before, _ := old[field].(json.Number)
	if !ok {
		return more(field, value)
	}
	a, err := now.Int64()
	b, _ := before.Int64()
	if err != nil || a < b {
		return more(field, value)
	}
	return nil
}

// network modes are compared by what they mean.
func network(old container) comparison {
	normal := func(v any) string {
		switch v {
		case nil, "", "default", "bridge":
			return "default"
		}
		text, _ := v.(string)
		for name, endpoint := range old.NetworkSettings.Networks {
			if text != "" && (text == name || text == endpoint["NetworkID"]) {
				return name
			}
		}
		return text
	}
	return func(field string, value any, before object) error {
		if now := normal(value); now == "" || now != normal(before[field]) {
			return more(field, value)
		}
		return nil
	}
}

// hostFields are the fields of HostConfig that a new container may have.
func hostFields(old container) map[string]comparison {
	out := map[string]comparison{
		"Binds": binds(old), "Mounts": mounts(old), "NetworkMode": network(old), "PortBindings": ports,
		"CapAdd": capabilities(subset), "CapDrop": capabilities(includes), "SecurityOpt": exact, "Privileged": same,
		"PidMode": same, "UTSMode": same, "UsernsMode": same, "Isolation": same, "Runtime": same, "CgroupParent": same, "Cgroup": same,
		"IpcMode": oneOf("private", "none"), "CgroupnsMode": oneOf("private"),
		"ReadonlyRootfs": restricted, "MaskedPaths": hidden, "ReadonlyPaths": hidden, "OomScoreAdj": notLower,
	}
	for _, f := range []string{
		"ContainerIDFile", "LogConfig", "AutoRemove", "VolumeDriver", "OomKillDisable", "PublishAllPorts", "StorageOpt",
		"CpuRealtimePeriod", "CpuRealtimeRuntime", "BlkioWeightDevice", "BlkioDeviceReadBps", "BlkioDeviceWriteBps",
		"BlkioDeviceReadIOps", "BlkioDeviceWriteIOps",
	} {
		out[f] = same
	}
	for _, f := range []string{
		"VolumesFrom", "Devices", "DeviceCgroupRules", "DeviceRequests", "GroupAdd", "Sysctls", "Tmpfs", "ExtraHosts",
		"Dns", "DnsOptions", "DnsSearch", "Links", "Ulimits", "Annotations",
	} {
		out[f] = subset
	}
	for _, f := range []string{
		"RestartPolicy", "Memory", "MemoryReservation", "MemorySwap", "MemorySwappiness", "NanoCpus", "CpuShares", "CpuPeriod", "CpuQuota",
		"CpusetCpus", "CpusetMems", "PidsLimit", "ShmSize", "BlkioWeight", "ConsoleSize", "Init", "KernelMemory", "KernelMemoryTCP",
		"CpuCount", "CpuPercent", "IOMaximumIOps", "IOMaximumBandwidth",
	} {
		out[f] = free
	}
	return out
}

// configFields are the fields of a new container besides HostConfig.
func configFields(old container, base defaults) map[string]comparison {
	out := map[string]comparison{
		"Env": variables(base), "Image": sameImage(old), "Volumes": volumes(old), "User": user(base), "Labels": labels,
		"HostConfig": fields(hostFields(old), old.HostConfig), "NetworkingConfig": networking(old),
		"ExposedPorts": exposed(old),
	}
	for _, f := range []string{
		"Hostname", "Domainname", "WorkingDir", "MacAddress", "NetworkDisabled", "OnBuild", "Shell", "Entrypoint", "Cmd", "Healthcheck",
	} {
		out[f] = same
	}
	for _, f := range []string{
		"AttachStdin", "AttachStdout", "AttachStderr", "Tty", "OpenStdin", "StdinOnce", "ArgsEscaped", "StopSignal", "StopTimeout",
	} {
		out[f] = free
	}
	return out
}

// fields checks an object field by field. Fields that are missing are checked too: what they default to can be more.
func fields(known map[string]comparison, old object) comparison {
	return func(field string, value any, _ object) error {
		given, ok := value.(object)
		if !ok && value != nil {
			return fmt.Errorf("%s is not an object", field)
		}
		for name := range given {
			if known[name] == nil {
				return fmt.Errorf("the field %q is not known", name)
			}
		}
		for name, check := range known {
			if err := check(name, given[name], old); err != nil {
				return err
			}
		}
		return nil
	}
}

// newPower says what a container that is to be created could do that the one it replaces cannot.
func newPower(body object, old container, base defaults) error {
	return fields(configFields(old, base), old.Config)("the body", body, nil)
}

// user compares the user that the container will run as.
func user(base defaults) comparison {
	return func(field string, value any, old object) error {
		now, ok := value.(string)
		before, _ := old[field].(string)
		if now == "" {
			now = base.Config.User
		}
		if (!ok && value != nil) || now != before {
			return more(field, now)
		}
		return nil
	}
}

// isLoader reports variables that make a program load or run something.
func isLoader(name string) bool {
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GIT_") || slices.Contains([]string{
		"PATH", "ENV", "BASH_ENV", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "RUBYOPT",
		"RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "SHELL", "EDITOR", "PAGER", "IFS", "PROMPT_COMMAND",
		"PYTHONBREAKPOINT", "PYTHONUSERBASE", "PERLLIB", "PERL5DB", "DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH", "GCONV_PATH", "OPENSSL_CONF",
		"OPENSSL_MODULES", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "PHPRC", "PHP_INI_SCAN_DIR", "BUNDLE_GEMFILE", "GEM_PATH", "ERL_FLAGS",
		"LESSOPEN",
	}, name)
}

// variables may get other values, but no variable is new, and those that load programs stay as they are.
func variables(base defaults) comparison {
	return func(field string, value any, old object) error {
		before, _ := old[field].([]any)
		known := map[string]string{}
		for _, e := range base.Config.Env {
			name, v, _ := strings.Cut(e, "=")
			known[name] = v
		}
		for _, e := range before {
			text, _ := e.(string)
			name, v, _ := strings.Cut(text, "=")
			known[name] = v
		}
		list, ok := value.([]any)
		if !ok && value != nil {
			return fmt.Errorf("%s is not a list", field)
		}
		for _, e := range list {
			text, _ := e.(string)
			name, v, _ := strings.Cut(text, "=")
			was, ok := known[name]
			switch {
			case name == "affinity:container": // compose 1 notes there which container it replaces
			case !ok:
				return fmt.Errorf("the environment variable %q is new", name)
			case v != was && isLoader(name):
				return fmt.Errorf("the environment variable %q has another value", name)
			}
		}
		return nil
	}
}

// labels stay as they are, but for what compose notes about its own work.
func labels(field string, value any, old object) error {
	before, _ := old[field].(object)
	now, ok := value.(object)
	if !ok && value != nil {
		return fmt.Errorf("%s is not an object", field)
	}
	for name, v := range now {
		switch {
		case name == labelOneOff && !strings.EqualFold(fmt.Sprint(v), "false"):
			return more(field, object{name: v})
		case strings.HasPrefix(name, labelPrefix) && name != labelService && name != labelProject:
		case before[name] != v:
			return more(field, object{name: v})
		}
	}
	for _, name := range []string{labelService, labelProject} {
		if before[name] != now[name] {
			return fmt.Errorf("the label %s is missing or another one", name)
		}
	}
	return nil
}

// Repository is the part of an image reference before its tag and digest, in its long form.
func Repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		ref = ref[:i]
	}
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

// isImageID reports an id, or the beginning of one, in place of an image's name.
func isImageID(ref string) bool {
	hex := strings.TrimPrefix(ref, "sha256:")
	return len(hex) >= 4 && strings.Trim(hex, "0123456789abcdef") == ""
}

func sameImage(old container) comparison {
	return func(field string, value any, before object) error {
		now, _ := value.(string)
		was, _ := before[field].(string)
		switch {
		case now == was && now != "", now == old.Image && now != "":
			return nil
		case !image(now) || isImageID(now) || isImageID(was) || Repository(now) != Repository(was):
			return more(field, value)
		}
		return nil
	}
}

func networking(old container) comparison {
	return func(field string, value any, _ object) error {
		given, ok := value.(object)
		if !ok && value != nil {
			return fmt.Errorf("%s is not an object", field)
		}
		for name, v := range given {
			endpoints, ok := v.(object)
			if name != "EndpointsConfig" || !ok && v != nil {
				return fmt.Errorf("the field %q is not known", name)
			}
			for network, e := range endpoints {
				if err := old.endpoint(network, e); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// endpoint checks the place that a container is to have in a network.
func (c container) endpoint(network string, value any) error {
	var was object
	for name, e := range c.NetworkSettings.Networks {
		if network == name || network == e["NetworkID"] && network != "" {
			was = e
		}
	}
	if was == nil {
		return fmt.Errorf("the replaced container is not in the network %q", network)
	}
	given, ok := value.(object)
	if !ok && value != nil {
		return fmt.Errorf("the endpoint of %q is not an object", network)
	}
	for field, v := range given {
		check := same
		switch field {
		case "Aliases":
			check = c.aliases
		case "Links", "IPAMConfig", "DriverOpts", "MacAddress", "NetworkID", "EndpointID", "Gateway", "IPAddress", "IPPrefixLen", "IPv6Gateway",
			"GlobalIPv6Address", "GlobalIPv6PrefixLen", "DNSNames", "GwPriority":
		default:
			return fmt.Errorf("the field %q of an endpoint is not known", field)
		}
		if err := check(field, v, was); err != nil {
			return err
		}
	}
	return nil
}

// aliases are names in a network: those it had, its own names, and ids.
func (c container) aliases(field string, value any, was object) error {
	before, _ := was[field].([]any)
	list, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("%s is not a list", field)
	}
	id := c.identity()
	for _, e := range list {
		text, _ := e.(string)
		hex := len(text) == 12 && strings.Trim(text, "0123456789abcdef") == ""
		if text == "" || !contains(before, e) && !hex && text != id.service() && !fits(text, id) {
			return more(field, e)
		}
	}
	return nil
}
