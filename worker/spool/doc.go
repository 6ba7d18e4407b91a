// Package spool keeps on disk what the store does not take, until it does: the outcomes of tasks that ended while
// Redis was away. A [Spool] is a folder with one file per record, and a record is bytes under a key.
//
// What it promises, and the test that holds it:
//
//   - When Put has returned nil the record survives a kill of the process and a power cut, whole: it was written beside
//     its place, synced, renamed, and the folder was synced (TestSpool_Crash, TestSpool_Sync).
//   - Until then the earlier record of the key is there, whole (TestSpool_Crash, TestSpool_FullDisk).
//   - A record that was cut at any byte, or has any bit wrong, is never handed out; the others are (TestSpool_Torn,
//     TestSpool_BitFlip). It is moved to the folder "torn", counted and logged, never deleted.
//   - Two processes never share a folder (TestOpen_Locked).
//   - Its records and unfinished writes take no more than Options.MaxBytes of the disk (TestSpool_MaxBytes).
//
// A record may be handed out after it was removed if the power fails before Remove has returned: whoever replays
// records must bear to do it twice.
package spool
