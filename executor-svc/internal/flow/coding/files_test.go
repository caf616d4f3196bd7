package coding

import (
	"fmt"
	"strings"
	"testing"
)

// D6: file changes are recorded as created, modified or deleted with the backup's path.
func TestFilesChanged(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   []string
	}{
		"written": {
			`{"message":"ok","structured":{"changes":[{"path":"a.go","change":"modified","backup":".pawl/backups/1","sha256":"ab","bytes":3},{"path":"b.go","change":"created"}]}}`,
			[]string{"MODIFIED a.go .pawl/backups/1 ab", "CREATED b.go"},
		},
		"moved": {
			`{"structured":{"changes":[{"path":"old.go","change":"deleted","backup":"k"},{"path":"new.go","change":"created","from":"old.go"}]}}`,
			[]string{"DELETED old.go k", "CREATED new.go old.go"},
		},
		"malformed entries":  {`{"structured":{"changes":[7,{"path":"a"},{"path":"","change":"created"},{"path":"a","change":"eaten"},{"path":"b","change":"deleted"}]}}`, []string{"DELETED b"}},
		"another meaning":    {`{"structured":{"changes":"none"}}`, nil},
		"structured as list": {`{"structured":[1]}`, nil},
		"no structure":       {`{"message":"x"}`, nil},
		"not JSON":           {`x`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range filesChanged(c.output) {
				words := []string{strings.TrimPrefix(f.GetType().String(), "FILE_CHANGE_TYPE_"), f.GetPath(), f.GetFromPath(), f.GetBackupPath(), f.GetSha256()}
				got = append(got, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The number of recorded files is bounded.
func TestManyFilesChanged(t *testing.T) {
	entry := `{"path":"a","change":"created"}`
	output := `{"structured":{"changes":[` + strings.Repeat(entry+",", 2*maxFileChanges) + entry + `]}}`
	if n := len(filesChanged(output)); n != maxFileChanges {
		t.Errorf("%d are recorded", n)
	}
}

func FuzzFilesChanged(f *testing.F) {
	f.Add(`{"structured":{"changes":[{"path":"a","change":"created"}]}}`)
	f.Fuzz(func(t *testing.T, output string) {
		for _, c := range filesChanged(output) {
			if c.GetPath() == "" || c.GetType() == 0 {
				t.Errorf("%v", c)
			}
		}
	})
}
