package store

import (
	"reflect"
	"testing"
	"time"
)

// fillValue puts something into all that v can hold, one of each.
func fillValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 2))
		fillValue(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(key)
		fillValue(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fillValue(v.Field(i))
		}
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(1)
	}
}

// wantApart says where two values lead to the same place.
func wantApart(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
		}
	case reflect.Struct:
		if a.Type() != reflect.TypeFor[time.Time]() {
			for i := range a.NumField() {
				wantApart(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
			}
		}
		return
	}
	switch a.Kind() {
	case reflect.Pointer:
		wantApart(t, path, a.Elem(), b.Elem())
	case reflect.Slice:
		wantApart(t, path, a.Index(0), b.Index(0))
	case reflect.Map:
		for _, key := range a.MapKeys() {
			wantApart(t, path, a.MapIndex(key), b.MapIndex(key))
		}
	}
}

func TestAnAgencyIsReadAsACopyThatSharesNothingThatIsChangedInPlace(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), BaseURL: "https://api.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var want Agency
	fillValue(reflect.ValueOf(&want).Elem())
	if err := s.Update(func(tx *Tx) error { return tx.PutAgency("A100", want) }); err != nil {
		t.Fatal(err)
	}
	var read [3]Agency
	for i := range read {
		if err := s.View(func(tx *Tx) (err error) { read[i], _, err = tx.Agency("A100"); return err }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read[i], want) {
			t.Errorf("read %+v, want %+v", read[i], want)
		}
	}
	for i := range read {
		read[i].Operations = nil // SetOperation makes a copy
	}
	wantApart(t, "agency", reflect.ValueOf(read[0]), reflect.ValueOf(read[1]))
	wantApart(t, "agency", reflect.ValueOf(read[1]), reflect.ValueOf(read[2]))
}

func TestNamesThatAreLearnedAndNotCommittedAreForgotten(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), BaseURL: "https://api.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(id string, fields ...string) func(*Tx) error {
		c := ContactRequest{ID: id, Rules: 1}
		for _, f := range fields {
			c.Fields = append(c.Fields, Field{f, FieldDigest{1, 2, 0x30}})
		}
		return func(tx *Tx) error { return tx.PutContactRequest("A100", "a", c) }
	}
	if err := s.Update(put("1", "email")); err != nil {
		t.Fatal(err)
	}
	_ = s.Update(func(tx *Tx) error {
		_ = put("2", "email", "gone")(tx)
		_ = tx.flush()
		return errUnchanged
	})
	if err := s.Update(put("3", "phone", "gone")); err != nil {
		t.Fatal(err)
	}
	err = s.View(func(tx *Tx) error {
		all, err := tx.ContactRequests("A100", "a")
		names, _ := tx.FieldNames("A100")
		if !reflect.DeepEqual(names, []string{"email", "phone", "gone"}) || len(all) != 2 || len(all[1].Fields) != 2 || all[1].Fields[0].Name != "phone" {
			t.Errorf("%v are known, with %v", all, names)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
