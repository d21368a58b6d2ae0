package broker

import "strings"

// repository is the part of an image reference before its tag and digest, in its long form.
func repository(ref string) string {
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
		case !image(now) || isImageID(now) || isImageID(was) || repository(now) != repository(was):
			return more(field, value)
		}
		return nil
	}
}
