package config

import (
	"net/netip"
	"net/url"
	"strings"

	"claudeops/internal/access"
)

// OIDC is an identity provider with which people sign in.
type OIDC struct {
	Issuer       string // empty: there is none
	ClientID     string
	ClientSecret string
	Scopes       []string
	GroupsClaim  string
	Admins       []string
	Responders   []string
	Readers      []string
}

// groupPrefix begins an entry that names a group instead of a user.
const groupPrefix = "group:"

// Granted are the users and groups with a role.
type Granted struct {
	Role   access.Role
	Users  []string
	Groups []string
}

// Granted lists the roles that the operator gave.
func (o OIDC) Granted() []Granted {
	var out []Granted
	for _, list := range []struct {
		role    access.Role
		entries []string
	}{{access.RoleAdmin, o.Admins}, {access.RoleResponder, o.Responders}, {access.RoleRead, o.Readers}} {
		if len(list.entries) == 0 {
			continue
		}
		g := Granted{Role: list.role}
		for _, entry := range list.entries {
			if group, ok := strings.CutPrefix(entry, groupPrefix); ok {
				g.Groups = append(g.Groups, group)
			} else {
				g.Users = append(g.Users, entry)
			}
		}
		out = append(out, g)
	}
	return out
}

func (c *Config) signInSettings() []field {
	o := &c.OIDC
	const who = "A user is named by user name, verified email address or subject; `group:NAME` names a group."
	return under(
		"oidc",
		value("issuer", &o.Issuer, webURLKind(),
			"URL of an OpenID Connect provider with which people sign in. Needs `web.public_url`. See [access.md](access.md).").
			byEnv("CLAUDEOPS_OIDC_ISSUER"),
		value("client_id", &o.ClientID, textKind(), "Id of this installation at the provider.").byEnv("CLAUDEOPS_OIDC_CLIENT_ID"),
		value("client_secret", &o.ClientSecret, tokenKind(), "Secret of this installation at the provider; a public client has none.").
			byEnv("CLAUDEOPS_OIDC_CLIENT_SECRET").hiddenValue(),
		value("scopes", &o.Scopes, wordsKind("scopes"), "Scopes to ask for. Some providers need another one for groups.").
			or("openid,profile,email"),
		value("groups_claim", &o.GroupsClaim, textKind(), "Claim that lists the groups of a person.").or("groups"),
		value("admins", &o.Admins, wordsKind("users and groups"), "Who may do everything. "+who).byEnv("CLAUDEOPS_OIDC_ADMINS"),
		value("responders", &o.Responders, wordsKind("users and groups"), "Who may acknowledge, snooze and deny.").
			byEnv("CLAUDEOPS_OIDC_RESPONDERS"),
		value("readers", &o.Readers, wordsKind("users and groups"), "Who may only look.").byEnv("CLAUDEOPS_OIDC_READERS"),
	)
}

// checkOIDC checks that a sign-in can work, and that somebody may sign in.
func (l *loader) checkOIDC(c *Config) {
	o := &c.OIDC
	if o.Issuer == "" {
		if o.ClientID != "" {
			l.refuse(&o.ClientID, "set oidc.issuer, or remove the settings of oidc", "no oidc.issuer is set")
		}
		return
	}
	switch u, err := url.Parse(o.Issuer); {
	case err != nil:
	case u.Scheme != "https" && !localHost(u.Hostname()):
		l.refuse(&o.Issuer, "use https://", "without TLS anybody on the way could sign in")
	case o.ClientID == "":
		l.refuse(&o.Issuer, "register this installation at the provider and set oidc.client_id", "no oidc.client_id is set")
	case c.Edges.PublicURL == "":
		l.refuse(&o.Issuer, "set web.public_url", "the provider sends people back to web.public_url, which is not set")
	case len(o.Granted()) == 0:
		l.refuse(&o.Issuer, "set oidc.admins, oidc.responders or oidc.readers", "nobody could sign in: no user or group has a role")
	}
}

func localHost(name string) bool {
	address, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && address.Unmap().IsLoopback()
}
