package store

import "encoding/binary"

// PutSchedule remembers chunk n, from 0, of an agency's schedule.
func (tx *Tx) PutSchedule(agency string, n int, chunk []byte) error {
	return tx.put(bucketSchedule, scheduleKey(agency, n), chunk)
}

// Schedule visits the chunks of an agency's schedule in order. The slices are valid only during the call.
func (tx *Tx) Schedule(agency string, visit func(n int, chunk []byte)) {
	for k, chunk := range tx.ascend(bucketSchedule, prefix(agency), prefix(agency)) {
		visit(int(binary.BigEndian.Uint32(k)), chunk)
	}
}

// TrimSchedule forgets the chunks of an agency's schedule from n on.
func (tx *Tx) TrimSchedule(agency string, n int) error {
	var beyond [][]byte
	for k := range tx.ascend(bucketSchedule, prefix(agency), scheduleKey(agency, n)) {
		beyond = append(beyond, append(prefix(agency), k...))
	}
	return tx.delete(bucketSchedule, beyond...)
}

func scheduleKey(agency string, n int) []byte {
	return binary.BigEndian.AppendUint32(prefix(agency), uint32(n))
}
