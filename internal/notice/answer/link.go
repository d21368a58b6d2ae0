package answer

import "strings"

// LinkPath begins the path of a link; the token follows.
const LinkPath = "/answer/"

// linkPrefix begins the recipient of a link, so that a token of a button is no link and a link is no button.
const linkPrefix = "link:"

// LinkRecipient is the recipient of the links that go to a route.
func LinkRecipient(route string) string { return linkPrefix + route }

// LinkRoute returns the route that a link was sent to, and whether the token is that of a link.
func (t Token) LinkRoute() (string, bool) { return strings.CutPrefix(t.Recipient, linkPrefix) }
