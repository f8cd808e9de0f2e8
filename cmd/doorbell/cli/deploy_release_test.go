package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// yamlOf reads a file of one document from the top of the repository.
func yamlOf(t *testing.T, name string) node {
	t.Helper()
	all := documents(t, readText(t, filepath.Join(top, name)))
	if len(all) != 1 {
		t.Fatalf("%s holds %d documents", name, len(all))
	}
	return all[0]
}

func text(n node) string { s, _ := n.v.(string); return s }

// TestWhatAReleaseIsMadeOfIsThere holds the description of a release against the repository.
func TestWhatAReleaseIsMadeOfIsThere(t *testing.T) {
	g := yamlOf(t, ".goreleaser.yaml")
	var files []string
	for _, f := range g.at("archives.0.files").list() {
		files = append(files, text(f))
	}
	deb := g.at("nfpms.0")
	targets := map[string]string{}
	for _, c := range deb.at("contents").list() {
		if src := text(c.at("src")); src != "" {
			files = append(files, src)
			targets[src] = text(c.at("dst"))
		} else if text(c.at("type")) != "dir" {
			t.Errorf("%v has no source", c.v)
		}
	}
	for _, script := range []string{"postinstall", "preremove"} {
		path := text(deb.at("scripts." + script))
		files = append(files, path)
		if out, err := exec.Command("sh", "-n", filepath.Join(top, path)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", path, err, out)
		}
	}
	main := text(g.at("builds.0.main"))
	files = append(files, main, "deploy/Dockerfile", "deploy/changelog.md")
	if len(files) < 15 {
		t.Errorf("only %q: looked in the wrong place", files)
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(top, f)); err != nil {
			t.Errorf("%q: %v", f, err)
		}
	}
	var platforms []string
	for _, system := range g.at("builds.0.goos").list() {
		for _, machine := range g.at("builds.0.goarch").list() {
			platforms = append(platforms, text(system)+"/"+text(machine))
		}
	}
	if slices.Sort(platforms); strings.Join(platforms, " ") != "darwin/amd64 darwin/arm64 linux/amd64 linux/arm64" {
		t.Errorf("built for %q", platforms)
	}

	unit, override := strings.ReplaceAll(readText(t, filepath.Join(top, "deploy/doorbell.service")), "%i", ""), // of the first instance
		readText(t, filepath.Join(top, "deploy/deb/package.conf"))
	if dst := targets["deploy/doorbell.service"]; targets["deploy/deb/package.conf"] != dst+".d/package.conf" {
		t.Errorf("the unit is at %s, what changes it at %s", dst, targets["deploy/deb/package.conf"])
	}
	start := "ExecStart=" + text(deb.at("bindir")) + "/" + text(g.at("builds.0.binary")) + " run\n"
	if !strings.Contains(unit, "\nExecStart=/usr/local/bin/doorbell run\n") || !strings.HasSuffix(override, "\nExecStart=\n"+start) {
		t.Errorf("the package starts\n%s", override)
	}
	if env := targets["deploy/doorbell.env.example"]; !strings.Contains(unit, "EnvironmentFile=-"+env+"\n") {
		t.Errorf("the unit does not read %s", env)
	}
}

var linked = regexp.MustCompile(`-X doorbell/([a-z/]+)\.([a-z]+)=`)

// TestTheVersionOfATagGoesToAVariableThatIsThere looks for what -X sets: a name that is wrong is no error of the linker.
func TestTheVersionOfATagGoesToAVariableThatIsThere(t *testing.T) {
	found := 0
	for _, file := range []string{".goreleaser.yaml", "deploy/Dockerfile", ".github/SECURITY.md"} {
		for _, name := range linked.FindAllStringSubmatch(readText(t, filepath.Join(top, file)), -1) {
			found++
			if !isStringVariable(t, name[1], name[2]) {
				t.Errorf("%s sets %s in %s, which is no variable with a text", file, name[2], name[1])
			}
		}
	}
	if found != 3 {
		t.Errorf("the version is set in %d places", found)
	}
}

// isStringVariable reports whether a package declares a variable and begins it with a literal text.
func isStringVariable(t *testing.T, room, name string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top, room, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	is := false
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if v.Names[0].Name == name && len(v.Values) == 1 {
					literal, ok := v.Values[0].(*ast.BasicLit)
					is = is || ok && literal.Kind == token.STRING
				}
			}
		}
	}
	return is
}

// TestTheWorkflowOfAReleaseHasTheRightsThatItNeeds wants no right for all jobs, every action with a version, and what is
// attested to be what was built.
func TestTheWorkflowOfAReleaseHasTheRightsThatItNeeds(t *testing.T) {
	w := yamlOf(t, ".github/workflows/release.yaml")
	if rights := w.at("permissions").fields(); len(rights) != 0 {
		t.Errorf("all jobs may %v", rights)
	}
	job := w.at("jobs.release")
	for _, right := range []string{"contents", "packages", "id-token", "attestations"} {
		if text(job.at("permissions."+right)) != "write" {
			t.Errorf("the job lacks %s", right)
		}
	}
	var uses []string
	for _, step := range job.at("steps").list() {
		use := text(step.at("uses"))
		if use == "" {
			continue
		}
		action, version, _ := strings.Cut(use, "@")
		if uses = append(uses, action); !regexp.MustCompile(`^(v[0-9]+|[0-9a-f]{40})`).MatchString(version) {
			t.Errorf("%s has no version", use)
		}
		if action == "docker/build-push-action" && (text(step.at("with.file")) != "deploy/Dockerfile" || !strings.HasPrefix(text(step.at("with.build-args")), "VERSION=")) {
			t.Errorf("the image is built with %v", step.at("with").v)
		}
	}
	for _, want := range []string{"goreleaser/goreleaser-action", "actions/attest-build-provenance", "docker/build-push-action", "anchore/sbom-action/download-syft"} {
		if !slices.Contains(uses, want) {
			t.Errorf("%s is not used: %q", want, uses)
		}
	}
	sums := text(yamlOf(t, ".goreleaser.yaml").at("checksum.name_template"))
	if raw := readText(t, filepath.Join(top, ".github/workflows/release.yaml")); !strings.Contains(raw, "subject-checksums: dist/"+sums+"\n") {
		t.Errorf("dist/%s is not attested", sums)
	}
}
