//! Reads an object that is a file on this machine.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use bytes::Bytes;
use futures_util::{Stream, stream};

/// The maximum number of bytes that are read at a time. An HTTP server asks for the next bytes before all previous ones
/// are sent. So while a client does not read, the server holds up to this many bytes in memory, in addition to its own
/// buffer.
const CHUNK: u64 = 32 << 10;

struct Reader {
    file: File,
    left: Range<u64>,
}

/// Reads a range of a file. It is an error if the file ends before the range does.
pub(super) fn read(file: File, range: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(Reader { file, left: range }, |mut reader| async {
        if reader.left.is_empty() {
            return Ok(None);
        }
        if let Some(bytes) = reader.cached() {
            return Ok(Some((bytes, reader)));
        }
        tokio::task::spawn_blocking(|| reader.chunk()).await.map_err(io::Error::other)?.map(Some)
    })
}

impl Reader {
    fn wanted(&self) -> u64 {
        (self.left.end - self.left.start).min(CHUNK)
    }

    /// Reads bytes that the system has cached in memory. Returns `None` if the read would have to wait for the disk.
    /// For cached bytes, this avoids a switch to another thread, which costs more than the read.
    #[cfg(target_os = "linux")]
    fn cached(&mut self) -> Option<Bytes> {
        let mut bytes = vec![0; usize::try_from(self.wanted()).ok()?];
        let into = &mut [io::IoSliceMut::new(&mut bytes)];
        let read = rustix::io::preadv2(&self.file, into, self.left.start, rustix::io::ReadWriteFlags::NOWAIT).ok()?;
        bytes.truncate(read);
        self.left.start += read as u64;
        (read > 0).then(|| bytes.into())
    }

    #[cfg(not(target_os = "linux"))]
    fn cached(&mut self) -> Option<Bytes> {
        None
    }

    fn chunk(mut self) -> io::Result<(Bytes, Self)> {
        self.file.seek(SeekFrom::Start(self.left.start))?;
        let wanted = self.wanted();
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
        let read = self.file.by_ref().take(wanted).read_to_end(&mut bytes)?;
        if read as u64 != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left.start += wanted;
        Ok((bytes.into(), self))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures_util::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn a_range_is_read_in_chunks_and_a_short_file_is_an_error() {
        let whole: Vec<u8> = (0..200_000_u32).flat_map(u32::to_be_bytes).collect();
        for (range, is_there) in [
            (0..800_000, true),
            (0..1, true),
            (32_768..65_536, true),
            (799_999..800_000, true),
            (123_456..700_001, true),
            (0..800_001, false),
            (900_000..900_001, false),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&whole).unwrap();
            let chunks = read(file, range.clone()).try_collect::<Vec<_>>().await;
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
            let expected = is_there.then(|| whole[start..end].to_vec());
            assert_eq!(chunks.map(|chunks| chunks.concat()).ok(), expected, "{range:?}");
        }
    }
}
