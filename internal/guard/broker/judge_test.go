package broker

import (
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
	again := func() string { return "the action redeploy" }
	for line, want := range map[string]ops.Tier{
		"GET /containers/json?all=1": 1, "GET /containers/web/json": 1, "GET /containers/web/logs?follow=1&stdout=1": 1, "HEAD /_ping": 1,
		"GET /images/json": 1, "GET /images/a/b:1/json": 1, "GET /networks/x": 1, "GET /volumes": 1, "GET /events?since=1": 1,
		"GET /containers/web/stats?stream=0": 1, "GET /containers/web/top?ps_args=-ef": 1, "POST /containers/web/wait": 1,
		"POST /containers/web/start": 2, "POST /containers/web/restart?t=5": 2, "POST /containers/web/unpause": 2,
		"POST /containers/web/stop?t=5": 3, "DELETE /containers/web?force=1&v=False": 4, "POST /containers/create?name=web": 4,
		"POST /containers/web/rename?name=x": 4, "POST /images/create?fromImage=a/b&tag=1": 4, "POST /networks/n/connect": 4, "POST /networks/n/disconnect": 4,
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
			r, no := permit(target, tier, false, again)
			if (no == nil) != (tier >= want) || no != nil && (no.reason == "" || no.status != 403) {
				t.Errorf("%s at %s: %v", line, tier, no)
			}
			if _, dry := permit(target, tier, true, again); no == nil && (dry == nil) != (r.action == look) {
				t.Errorf("%s as a dry run: %v", line, dry)
			}
		}
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
		"web":   {{name: "web"}, {name: "www"}, {name: "front-1", labels: label("p", "other")}},
		"db":    {{name: "db"}, {name: "shop-db-1", labels: label("shop", "db")}},
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
		},
	} {
		for _, c := range list {
			if got, problem := s.find(c, all); got != want || (problem == "") != (want != "") {
				t.Errorf("%+v is %q, not %q: %s", c, got, want, problem)
			}
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	for _, text := range []string{
		`{"Config":{"Env":["A=secret","B","PATH=/bin"],"CreateCommand":["run","-e","A=secret"]},"HttpProxy":"http://u:secret@p","List":[{"env":"A=secret"}]}`,
		`{"HostConfig":{"LogConfig":{"Type":"splunk","Config":{"splunk-token":"secret","awslogs-x":"secret","tag":"shown"}},"StorageOpt":{"o":"secret"}}}`,
		`{"HostConfig":{"Mounts":[{"Type":"volume","VolumeOptions":{"DriverConfig":{"Name":"local","Options":{"type":"shown","o":"password=secret","device":"//u:secret@nas/x"}}}}]}}`,
		`{"Volumes":[{"Name":"shown","Options":{"type":"shown","o":"username=a,password=secret","n":7,"deep":{"a":["secret"]}},"Status":{"args":"secret"}}],"Warnings":null}`,
		`{"Name":"shown","options":{"password":"secret"},"DriverOpts":{"key":"secret"},"State":{"Status":"shown"}}`,
		`[{"Name":"n","Options":{"com.docker.network.driver.mtu":"shown","weave.password":"secret"},"IPAM":{"Options":{"token":"secret"}}}]`,
	} {
		v, err := parse([]byte(text))
		must(t, err)
		out, err := write(hideSecrets(v))
		must(t, err)
		got := string(out)
		if strings.Contains(got, "secret") || !strings.Contains(got, "redacted") || strings.Count(got, "shown") != strings.Count(text, "shown") {
			t.Error(got)
		}
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
