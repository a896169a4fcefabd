package discover

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// KindOf tells a store by its image or its port; empty where it is none that is known.
func KindOf(c Container) Kind {
	image, _, _ := strings.Cut(c.Image, "@")
	name := image[strings.LastIndexByte(image, '/')+1:]
	for _, k := range []struct {
		kind  Kind
		words []string
		port  int
	}{
		{Redis, []string{"redis", "valkey"}, 6379},
		{Postgres, []string{"postgres", "pgvector", "timescaledb"}, 5432},
		{Chroma, []string{"chroma"}, 0},
	} {
		for _, w := range k.words {
			if strings.Contains(name, w) || strings.Contains(path.Dir(image), w) {
				return k.kind
			}
		}
		if k.port != 0 && slices.Contains(c.Ports, k.port) {
			return k.kind
		}
	}
	return ""
}

// dataOf says where in the container a store keeps its data, or why that cannot be known.
func dataOf(s Store, c Container) (at, unknown string) {
	switch s.Kind {
	case Postgres:
		return cmp.Or(s.Settings["data_directory"], flag(c.Command, "-D"), c.Env["PGDATA"], "/var/lib/postgresql/data"), ""
	case Redis:
		dir := cmp.Or(s.Settings["dir"], option(c.Command, "--dir"), c.WorkDir)
		if dir == "" && configured(c.Command) {
			return "", "its configuration file says where, and was not read"
		}
		return from(c.WorkDir, dir), ""
	case Chroma:
		return chromaData(s, c)
	}
	return "", "it is no store that is known"
}

// chromaData: the image of 1.x writes to /data, those of 0.4 to 0.6 to /chroma/chroma; each can be told otherwise.
func chromaData(s Store, c Container) (at, unknown string) {
	if at := option(c.Command, "--path"); at != "" {
		return from(c.WorkDir, at), ""
	}
	version := s.Settings["version"]
	if version == "" {
		version = tag(c.Image)
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil && c.Env["CHROMA_PERSIST_PATH"] == "" && c.Env["PERSIST_DIRECTORY"] == "":
		return "", "its version is not known: 1.x writes to /data, 0.4 to 0.6 to /chroma/chroma"
	case err == nil && n >= 1 || err != nil && c.Env["CHROMA_PERSIST_PATH"] != "":
		if slices.ContainsFunc(c.Mounts, func(m Mount) bool { return path.Ext(m.At) == ".yaml" || path.Ext(m.At) == ".yml" }) {
			return "", "a configuration of its own is mounted, whose persist_path was not read"
		}
		return from(c.WorkDir, cmp.Or(c.Env["CHROMA_PERSIST_PATH"], "/data")), ""
	}
	return from(c.WorkDir, cmp.Or(c.Env["PERSIST_DIRECTORY"], "/chroma/chroma")), ""
}

// from gives a path as a process in a folder means it.
func from(dir, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/", dir, p)
}

// tag is the version that the name of an image ends with.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return strings.TrimPrefix(image[i+1:], "v")
	}
	return ""
}

// under reports whether a path lies in a folder, or is it.
func under(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// mountOf is the mount that a path lies in; nil: the writable layer.
func mountOf(c Container, p string) (found *Mount) {
	for i, m := range c.Mounts {
		if under(p, m.At) && (found == nil || len(path.Clean(m.At)) > len(path.Clean(found.At))) {
			found = &c.Mounts[i]
		}
	}
	return found
}

// inLayer gives the files below a folder that lie in the writable layer.
func inLayer(c Container, dir string) (files []string) {
	for _, w := range c.Written {
		if path.Clean(w) != path.Clean(dir) && under(w, dir) && mountOf(c, w) == nil {
			files = append(files, w)
		}
	}
	return files
}
