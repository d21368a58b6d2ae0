package config

import (
	"slices"
	"strings"
	"testing"
)

func TestSendersOfAlerts(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: `webhooks:
  body_signatures: false
  senders:
    - {name: sentry, secret_file: path}
    - {name: prod, form: alertmanager, secret: another-secret-of-a-sender}
    - {name: backups, fields: {name: /job/name, service: [/job/host, /host], resolved: [Done]}}
`, files: map[string]string{"path": "the-secret-path-of-sentry\n"},
	})
	got := c.Edges.AlertSenders
	if c.Edges.BodySignatures || len(got) != 3 || got[0].Form != "generic" || got[0].Secret != "the-secret-path-of-sentry" || got[1].Form != "alertmanager" ||
		!slices.Equal(got[2].Fields.Name, []string{"/job/name"}) || !slices.Equal(got[2].Fields.Service, []string{"/job/host", "/host"}) ||
		!slices.Equal(got[2].Fields.Resolved, []string{"done"}) {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(c.Secrets, "the-secret-path-of-sentry") || !slices.Contains(c.Secrets, "another-secret-of-a-sender") {
		t.Error("a secret path is not removed from what is stored")
	}
	for _, s := range c.Show() {
		if strings.Contains(s.Value, "secret") {
			t.Errorf("%s shows %s", s.Key, s.Value)
		}
	}
}

func TestSendersThatCannotWorkAreRefused(t *testing.T) {
	for _, tc := range []struct{ senders, want string }{
		{`[{name: generic}]`, "is the address of everybody"},
		{`[{name: Sentry!}]`, "not a name of a sender"},
		{`[{name: a, secret: short}]`, "secret of the sender is too short"},
		{`[{name: a}, {name: a}]`, "two senders are called a"},
		{`[{name: a, fields: {name: payload.summary}}]`, "not a JSON pointer"},
		{`[{name: a, form: grafana, fields: {name: /x}}]`, "the form grafana has its own fields"},
		{`[{name: a, form: nagios}]`, "nagios"},
		{`[{name: a, fields: {title: /x}}]`, "title"},
	} {
		_, _, err := load(t, setup{yaml: "webhooks:\n  senders: " + tc.senders + "\n"})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.senders, err)
		}
	}
}
