package broker

import (
	"encoding/json"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestTargets(t *testing.T) {
	for uri, want := range map[string]string{
		"/_ping":                              "_ping",
		"/v1.41/containers/json":              "containers/json",
		"/containers/a%2Db/json":              "containers/a-b/json",
		"/images/host:5000/a/b@sha256:1/json": "images/host:5000/a/b@sha256:1/json",
		"/v1.41":                              "v1.41",
		"/v1.39/info":                         "",
		"/v1.4.1/info":                        "v1.4.1/info",
		"/":                                   "",
		"":                                    "",
		"info":                                "",
		"http://docker/info":                  "",
		"//info":                              "",
		"/a//b":                               "",
		"/a/b/":                               "",
		"/a/../b":                             "",
		"/a/%2e%2e/b":                         "",
		"/a/x..y":                             "",
		"/a%2fb":                              "",
		"/a%252fb":                            "",
		"/a%00":                               "",
		"/a\\b":                               "",
		"/a b":                                "",
		"/a#b":                                "",
		"/a?x=1&x=2":                          "",
		"/a?x=%zz":                            "",
		"/a?x=1;y=2":                          "",
		"/caf\u00e9":                          "",
		"/" + strings.Repeat("a", maxURI):     "",
	} {
		got, err := parseTarget("GET", uri)
		if (err == nil) != (want != "") || err == nil && strings.Join(got.path, "/") != want {
			t.Errorf("%.60q is %q, %v", uri, got.path, err)
		}
	}
}

func TestRequestsByTier(t *testing.T) {
	for line, want := range map[string]ops.Tier{
		"GET /containers/json?all=1": 1, "GET /containers/web/json": 1, "GET /containers/web/logs?follow=1&stdout=1": 1, "HEAD /_ping": 1,
		"GET /images/json": 1, "GET /images/a/b:1/json": 1, "GET /networks/x": 1, "GET /volumes": 1, "GET /events?since=1": 1,
		"GET /containers/web/stats?stream=0": 1, "GET /containers/web/top?ps_args=-ef": 1, "POST /containers/web/wait": 1,
		"POST /containers/web/start": 2, "POST /containers/web/restart?t=5": 2, "POST /containers/web/unpause": 2,
		"POST /containers/web/stop?t=5": 3, "DELETE /containers/web?force=1&v=False": 3, "POST /containers/create?name=web": 3,
		"POST /containers/web/rename?name=x": 3, "POST /images/create?fromImage=a/b&tag=1": 3, "POST /networks/n/connect": 3,
		"GET /containers/web/logs?details=1": 4, "GET /containers/web/top?ps_args=e": 4,
		"GET /containers/web/top?ps_args=-eo+pid,args+--sort%3D-rss": 1, "GET /containers/web/top?ps_args=-efx": 4, "GET /containers/web/top?ps_args=-ef+-o+args": 4,
		"DELETE /containers/web?v=1":              4,
		"POST /containers/web/start?detachKeys=a": 4, "POST /containers/web/exec": 4, "GET /containers/web/export": 4, "GET /containers/web": 4,
		"PUT /containers/web/archive": 4, "POST /volumes/create": 4, "DELETE /volumes/x": 4, "POST /build": 4, "GET /images/json/x": 4,
		"POST /images/create?fromSrc=-": 4, "GET /secrets": 4, "GET /swarm": 4, "POST /containers/prune": 4, "HEAD /info": 4, "GET /containers/create/x/y": 4,
		"POST /containers/web/update": 4, "GET /distribution/a/json": 4, "GET /images/search?term=a": 4, "POST /commit": 4, "POST /containers/json": 4,
	} {
		method, uri, _ := strings.Cut(line, " ")
		target, err := parseTarget(method, uri)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			r, no := permit(target, tier, false)
			if (no == nil) != (tier >= want) || no != nil && (no.reason == "" || no.status != 403) {
				t.Errorf("%s at %s: %v", line, tier, no)
			}
			if _, dry := permit(target, tier, true); no == nil && (dry == nil) != (r.action == look) {
				t.Errorf("%s as a dry run: %v", line, dry)
			}
		}
	}
}

func TestBodies(t *testing.T) {
	for text, good := range map[string]bool{
		`{"a":1,"b":[{"c":null}]}`: true, `{}`: true, ` { } `: true,
		`{"a":1,"a":2}`: false, `{"a":1,"A":2}`: false, `{"x":{"a":1,"a":1}}`: false, `{"x":[{"a":1,"A":1}]}`: false,
		``: false, `null`: false, `[]`: false, `{}{}`: false, `{"a":1`: false, `{"a":1}x`: false, `{a:1}`: false,
		`{"hostport":1,"hoſtport":2}`: false, `{"x":[{"hoſtport":1}]}`: false, "{\"lin\u212as\":1}": false, `{"ho\u017ftport":1}`: false,
		strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 30): false,
		strings.Repeat(`[`, 5000):                                   false,
	} {
		if _, err := parseObject([]byte(text)); (err == nil) != good {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

const replaced = `{"Id":"1111","Name":"/shop_web_1","Image":"sha256:aa","Config":{"Image":"repo/web:1","User":"1000","Hostname":"111111111111",
	"Env":["A=1","PATH=/bin"],"Cmd":["serve"],"Entrypoint":null,"Volumes":{"/cache":{}},
	"Labels":{"com.docker.compose.project":"shop","com.docker.compose.service":"web","traefik.host":"a"}},
	"HostConfig":{"Binds":["/srv:/srv:ro","data:/data"],"NetworkMode":"shop_default","CapAdd":["NET_ADMIN"],"CapDrop":["NET_RAW"],
	"SecurityOpt":["no-new-privileges"],"Devices":[{"PathOnHost":"/dev/a","PathInContainer":"/dev/a","CgroupPermissions":"r"}],
	"PortBindings":{"80/tcp":[{"HostIp":"","HostPort":"8080"}]},"ReadonlyRootfs":true,"CgroupnsMode":"private","IpcMode":"private","OomScoreAdj":5,
	"MaskedPaths":["/proc/kcore"],"LogConfig":{"Type":"json-file","Config":{}},"Ulimits":[{"Name":"nofile","Hard":10,"Soft":10}],"Sysctls":{"net.a":"1"}},
	"Mounts":[{"Type":"bind","Source":"/srv","Destination":"/srv","RW":false},{"Type":"volume","Name":"data","Source":"/var/lib/x","Destination":"/data","RW":true},
	{"Type":"volume","Name":"anon","Source":"/var/lib/y","Destination":"/cache","RW":true}],
	"NetworkSettings":{"Networks":{"shop_default":{"NetworkID":"nid","Aliases":["web","111111111111"],"IPAMConfig":{"IPv4Address":"10.0.0.2"}}}}}`

// newContainer is a request that replaces the container without more power; the host part and the rest can be overwritten.
func newContainer(t *testing.T, host, top string) object {
	t.Helper()
	body, err := parseObject([]byte(`{"Image":"repo/web:2","User":"1000","Env":["A=2"],"Cmd":["serve"],
		"Labels":{"com.docker.compose.project":"shop","com.docker.compose.service":"web","com.docker.compose.config-hash":"x","traefik.host":"a"},
		"HostConfig":{"Binds":["/srv:/srv:ro","data:/data:rw","anon:/cache:rw"],"NetworkMode":"nid","CapAdd":["CAP_NET_ADMIN"],"CapDrop":["ALL","NET_RAW"],
		"SecurityOpt":["no-new-privileges"],"ReadonlyRootfs":true,"OomScoreAdj":5,"Memory":1,"PortBindings":{"80/tcp":[{"HostPort":"8080"}]},
		"RestartPolicy":{"Name":"always"}},"NetworkingConfig":{"EndpointsConfig":{"shop_default":{"Aliases":["web","shop_web_1"]}}}}`))
	must(t, err)
	for text, into := range map[string]object{host: body["HostConfig"].(object), top: body} {
		if text == "" {
			continue
		}
		more, err := parseObject([]byte(text))
		must(t, err)
		for k, v := range more {
			into[k] = v
		}
	}
	return body
}

func TestPower(t *testing.T) {
	var old container
	dec := json.NewDecoder(strings.NewReader(replaced))
	dec.UseNumber()
	must(t, dec.Decode(&old))
	var base defaults
	base.Config.User, base.Config.Env = "root", []string{"FROM_IMAGE=1"}
	hosts := map[string]bool{
		"": true, `{"Binds":[]}`: true, `{"Binds":["/srv:/srv:ro"]}`: true, `{"Devices":[{"PathOnHost":"/dev/a","PathInContainer":"/dev/a","CgroupPermissions":"r"}]}`: true,
		`{"Mounts":[{"Type":"bind","Source":"/srv","Target":"/srv","ReadOnly":true,"BindOptions":{"CreateMountpoint":true}}]}`: true, `{"LogConfig":{"Type":"json-file","Config":{}}}`: true,
		`{"Mounts":[{"Type":"volume","Source":"data","Target":"/data","VolumeOptions":{}}]}`: true, `{"Ulimits":[{"Hard":10,"Name":"nofile","Soft":10}]}`: true,
		`{"IpcMode":"none"}`: true, `{"CgroupnsMode":"private"}`: true, `{"OomScoreAdj":9}`: true, `{"MaskedPaths":["/proc/kcore"]}`: true, `{"Init":true}`: true,
		`{"NetworkMode":"shop_default"}`: true, `{"Sysctls":{"net.a":"1"}}`: true, `{"CapAdd":null}`: true,

		`{"Binds":["/srv:/srv"]}`: false, `{"Binds":["/srv:/srv:rw"]}`: false, `{"Binds":["/:/srv:ro"]}`: false, `{"Binds":["/srv:/etc:ro"]}`: false,
		`{"Binds":["data:/data:z"]}`: false, `{"Binds":["data:/data:rshared"]}`: false, `{"Binds":["other:/data"]}`: false, `{"Binds":["data"]}`: false, `{"Binds":"x"}`: false,
		`{"Mounts":[{"Type":"bind","Source":"/srv","Target":"/srv"}]}`: false, `{"Mounts":[{"Type":"tmpfs","Target":"/x"}]}`: false,
		`{"Mounts":[{"Type":"bind","Source":"/srv","Target":"/srv","ReadOnly":true,"BindOptions":{"Propagation":"rshared"}}]}`:        false,
		`{"Mounts":[{"Type":"volume","Source":"data","Target":"/data","VolumeOptions":{"DriverConfig":{"Options":{"device":"/"}}}}]}`: false,
		`{"Mounts":[{"Type":"volume","Source":"data","Target":"/data","VolumeOptions":{"Subpath":"x"}}]}`:                             false,
		`{"Devices":[{"PathOnHost":"/dev/a","PathInContainer":"/dev/a","CgroupPermissions":"rwm"}]}`:                                  false,
		`{"CapAdd":["NET_ADMIN","SYS_ADMIN"]}`: false, `{"CapDrop":[]}`: false, `{"CapDrop":null}`: false, `{"SecurityOpt":[]}`: false, `{"SecurityOpt":["no-new-privileges","apparmor=unconfined"]}`: false,
		`{"ReadonlyRootfs":false}`: false, `{"OomScoreAdj":0}`: false, `{"OomScoreAdj":4.5}`: false, `{"MaskedPaths":[]}`: false, `{"ReadonlyPaths":[]}`: false,
		`{"NetworkMode":"host"}`: false, `{"NetworkMode":""}`: false, `{"NetworkMode":"container:x"}`: false, `{"IpcMode":"shareable"}`: false, `{"CgroupnsMode":"host"}`: false,
		`{"Privileged":true}`: false, `{"Privileged":"true"}`: false, `{"PidMode":"host"}`: false, `{"Sysctls":{"net.a":"2"}}`: false, `{"Sysctls":{"net.b":""}}`: false, `{"Ulimits":[{"Name":"nofile","Hard":11,"Soft":10}]}`: false,
		`{"PortBindings":{"80/tcp":[{"HostPort":"81"}]}}`: false, `{"PortBindings":{"81/tcp":[{"HostPort":"8080"}]}}`: false, `{"PublishAllPorts":true}`: false,
		`{"PortBindings":{"80/tcp":[{"HostPort":"8080","hostip":"0.0.0.0"}]}}`: false, `{"PortBindings":{"80/tcp":[{"HostPort":"8080","New":1}]}}`: false,
		`{"PortBindings":{"80/tcp":[{"HostIp":"","HostPort":"8080"}]}}`: true, `{"PortBindings":{"80/tcp":[{"HostPort":8080}]}}`: false, `{"PortBindings":{"80/tcp":["8080"]}}`: false,
		`{"Runtime":"evil"}`: false, `{"Runtime":"runc"}`: false, `{"UsernsMode":"host"}`: false, `{"CgroupParent":"/x"}`: false, `{"Capabilities":["ALL"]}`: false, `{"privileged":true}`: false, `{"Annotations":{"io.podman.annotations.privileged":"TRUE"}}`: false, `{"Tmpfs":{"/x":""}}`: false,
		`{"LogConfig":{"Type":"syslog","Config":{}}}`: false, `{"DeviceRequests":[{"Count":-1}]}`: false, `{"GroupAdd":["docker"]}`: false, `{"VolumesFrom":["x"]}`: false,
	}
	tops := map[string]bool{
		`{"Image":"repo/web"}`: true, `{"Image":"docker.io/repo/web:9"}`: true, `{"Image":"sha256:aa"}`: true, `{"Env":["FROM_IMAGE=2","PATH=/bin"]}`: true, `{"Cmd":null}`: true,
		`{"Volumes":{"/cache":{}}}`: true, `{"Healthcheck":{}}`: true, `{"Env":["affinity:container==x"]}`: true,

		`{"Image":"other/web"}`: false, `{"Image":"sha256:bb"}`: false, `{"Image":"evil.example/repo/web"}`: false, `{"Image":""}`: false, `{"Image":null}`: false, `{"Image":7}`: false,
		`{"User":""}`: false, `{"User":"0"}`: false, `{"Cmd":["sh"]}`: false, `{"Cmd":"serve"}`: false, `{"Entrypoint":[""]}`: false, `{"Env":["B=1"]}`: false, `{"Env":["PATH=/data"]}`: false,
		`{"Env":"A=1"}`: false, `{"Volumes":{"/x":{}}}`: false, `{"Volumes":{"/cache":{"a":1}}}`: false, `{"Healthcheck":{"Test":["CMD","x"]}}`: false, `{"Labels":{}}`: false,
		`{"Labels":{"com.docker.compose.project":"shop","com.docker.compose.service":"db"}}`: false, `{"Labels":{"com.docker.compose.project":"shop","com.docker.compose.service":"web","traefik.host":"b"}}`: false,
		`{"Labels":{"com.docker.compose.project":"shop","com.docker.compose.service":"web","com.docker.compose.oneoff":"True"}}`: false, `{"HostConfig":[]}`: false, `{"HostConfig":null}`: false,
		`{"NetworkingConfig":{"EndpointsConfig":{"other":{}}}}`: false, `{"NetworkingConfig":{"EndpointsConfig":{"shop_default":{"Aliases":["db"]}}}}`: false, `{"NetworkingConfig":{"X":{}}}`: false,
		`{"NetworkingConfig":{"EndpointsConfig":{"shop_default":{"IPAMConfig":{"IPv4Address":"10.0.0.3"}}}}}`: false, `{"NetworkingConfig":{"EndpointsConfig":{"shop_default":{"DriverOpts":{"a":"b"}}}}}`: false,
		`{"NetworkingConfig":{"EndpointsConfig":{"shop_default":{"New":1}}}}`: false, `{"Hostname":"db"}`: false, `{"MacAddress":"x"}`: false, `{"New":null}`: false,
	}
	for text, good := range hosts {
		if err := newPower(newContainer(t, text, ""), old, base); (err == nil) != good {
			t.Errorf("HostConfig %s: %v", text, err)
		}
	}
	for text, good := range tops {
		if err := newPower(newContainer(t, "", text), old, base); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A container that was kept from something stays so when the field is left out, and what its image may become changes nothing.
func TestPowerThatIsLeftOut(t *testing.T) {
	read := func(text string) (old container) {
		t.Helper()
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		must(t, dec.Decode(&old))
		return old
	}
	old := read(`{"Id":"1","Name":"/web","Config":{"Image":"a/web:1","User":"app","NetworkDisabled":true,"Env":["LUA_INIT=a","PLAIN=a"],"ExposedPorts":{"80/tcp":{}}},
		"HostConfig":{"Runtime":"runsc","PublishAllPorts":true}}`)
	var base defaults
	base.Config.User = "app"
	for text, good := range map[string]bool{
		`{"Image":"a/web:1","NetworkDisabled":true,"HostConfig":{"PublishAllPorts":true},"ExposedPorts":{"80/tcp":{}}}`: true,
		`{"Image":"a/web:1","NetworkDisabled":true,"Env":["PLAIN=b"]}`:                                                  true,
		`{"Image":"a/web:1"}`:                                             true,
		`{"Image":"a/web:1","NetworkDisabled":false}`:                     true,
		`{"Image":"a/web:1","NetworkDisabled":true,"Env":["LUA_INIT=b"]}`: false,
		`{"Image":"a/web:1","NetworkDisabled":true,"HostConfig":{"PublishAllPorts":true},"ExposedPorts":{"22/tcp":{}}}`: false,
		`{"Image":"a/web:1","NetworkDisabled":true,"HostConfig":{"Runtime":"runc"}}`:                                    false,
	} {
		body, err := parseObject([]byte(text))
		must(t, err)
		if err := newPower(body, old, base); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !good {
			continue
		}
		fill(body, old)
		if host, _ := body["HostConfig"].(object); host["Runtime"] != "runsc" || body["User"] != "app" || body["NetworkDisabled"] != true {
			t.Errorf("%s became %s", text, canonical(body))
		}
	}
	body := object{}
	if fill(body, read(`{"Config":{},"HostConfig":{"Runtime":"oci"}}`)); canonical(body) != `{"HostConfig":{}}` {
		t.Errorf("without anything special it became %s", canonical(body))
	}
}

func TestServicesOfContainers(t *testing.T) {
	label := func(project, service string) map[string]string {
		return map[string]string{labelProject: project, labelService: service}
	}
	s := scope{
		services: []Service{{Name: "web", Names: []string{"www", "front-1"}}, {Name: "db"}, {Name: "queue", Names: []string{"a-queue"}}},
		others:   []Service{{Name: "mail", Names: []string{"b-db-1"}}, {Name: "queue", Names: []string{"b-queue"}}},
	}
	all := []identity{
		{name: "b-db-1", labels: label("b", "db")},
		{name: "shop-db-1", labels: label("shop", "db")},
		{name: "x-web-1", labels: label("x", "web")},
		{name: "y-web-1", labels: label("y", "web")},
	}
	for want, list := range map[string][]identity{
		"queue": {{name: "a-queue", labels: label("a", "queue")}},
		"web":   {{name: "web"}, {name: "www"}, {name: "front-1", labels: label("p", "other")}, {id: "0123456789abcdef", name: "0123456789ab_front-1", labels: label("x", "web")}},
		"db":    {{name: "db"}, {name: "shop-db-1", labels: label("shop", "db")}, {name: "111111111111_shop-db-1", labels: label("shop", "db")}},
		"": {
			{name: "mail"},
			{name: "b-db-1", labels: label("b", "db")},
			{name: "other"},
			{name: "x-web-1", labels: label("x", "web")},
			{},
			{name: "claudeops", labels: label("shop", "db")},
			{name: "x", labels: label("claude-ops", "db")},
			{name: "web2"},
			{name: "c-queue", labels: label("c", "queue")},
			{name: "b-queue", labels: label("b", "queue")},
			{name: "queue"},
			{name: "a_web"},
			{id: "fedcba9876543210", name: "0123456789ab_front-1", labels: label("x", "web")},
			{id: "0123456789abcdef", name: "0123456789ab_b-db-1", labels: label("shop", "db")},
		},
	} {
		for _, c := range list {
			if got, problem := s.find(c, all); got != want || (problem == "") != (want != "") {
				t.Errorf("%+v is %q, not %q: %s", c, got, want, problem)
			}
		}
	}
	old := identity{name: "shop_web_1", labels: label("shop", "web")}
	for name, good := range map[string]bool{
		"shop_web_1": true, "0123456789ab_shop_web_1": true, "shop-web-2": true, "shop_web_x": false, "shop-db-1": false, "web": false, "": false, "shop-web-1-x": false,
	} {
		if fits(name, old) != good {
			t.Errorf("%q fits: %v", name, !good)
		}
	}
}

func TestRepositories(t *testing.T) {
	for ref, want := range map[string]string{
		"web": "docker.io/library/web", "web:1": "docker.io/library/web", "docker.io/web@sha256:aa": "docker.io/library/web", "a/web:1@sha256:aa": "docker.io/a/web",
		"host:5000/web": "host:5000/web", "host:5000/web:1": "host:5000/web", "ghcr.io/a/b:c": "ghcr.io/a/b", "localhost/x:1": "localhost/x", "index.docker.io/a/web": "docker.io/a/web",
	} {
		if got := Repository(ref); got != want {
			t.Errorf("%s is %s", ref, got)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	v, err := parseObject([]byte(`{"Config":{"Env":["A=secret","B","PATH=/bin"],"CreateCommand":["run","-e","A=secret"]},"HttpProxy":"http://u:secret@p",
		"HostConfig":{"LogConfig":{"Type":"splunk","Config":{"splunk-token":"secret","tag":"t"}}},"List":[{"env":"A=secret"}]}`))
	must(t, err)
	text := canonical(hideSecrets(v))
	if strings.Contains(text, "secret") || !strings.Contains(text, `"A=[redacted]"`) || !strings.Contains(text, "PATH=/bin") || !strings.Contains(text, `"tag":"t"`) {
		t.Error(text)
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"/v1.41/containers/a/json?x=1", "/a/../b", "/%2e%2e/", "/a?b;c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		target, err := parseTarget("POST", uri)
		if err != nil {
			return
		}
		again, err := parseTarget("POST", target.address()+"?"+target.query.Encode())
		if err != nil || again.String() != target.String() {
			t.Errorf("%q is %q and then %q, %v", uri, target, again, err)
		}
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
