package web

import "net/url"

// servicePath is the address of the page of a service. Both names can contain any character.
func servicePath(environment, name string) string {
	if !segment(environment) || !segment(name) {
		return "/services/page?" + url.Values{"environment": {environment}, "service": {name}}.Encode()
	}
	return "/services/" + url.PathEscape(environment) + "/" + url.PathEscape(name)
}

// segment reports whether a name can be a part of a path: browsers remove dots, escaped or not.
func segment(name string) bool { return name != "" && name != "." && name != ".." }
